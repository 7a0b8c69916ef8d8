// The store on SQLite.
//
// The deciding thread only appends to a list and collects completions.  The store thread takes
// whatever the list holds (that is the group: what queued up during the previous commit), writes
// it as one transaction, posts the completions and wakes the other side through an eventfd. Nothing
// waits for a group to fill: an idle store commits a batch at once.
//
// When anything in a group fails, the group is rolled back and its batches become transactions of
// their own, one after the other, up to the one that fails.  From then on every batch fails with
// the same error (see Store::append: the journal has no holes) until drain() delivers it: the
// failure and all that it took along are delivered together.
//
// The log is written back into the file (checkpoint) when nothing was appended for a while, or when
// it has grown so long that reading it after a crash would take time.
#include <malloc.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "os/fd.h"
#include "store/rows.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace pergpu {
namespace {

constexpr std::chrono::milliseconds kIdle{500};
constexpr int kPagesWorthWriting = 256;  // checkpoint when idle: 1 MiB of log
constexpr int kPagesTooMany =
    131'072;  // checkpoint now: 512 MiB of log, a million-job submit is less

class SqliteStore final : public Store {
 public:
  SqliteStore(store::Database database, store::RowWriter writer, os::UniqueFd completion_fd)
      : database_(std::move(database)),
        writer_(std::move(writer)),
        completion_fd_(std::move(completion_fd)) {
    sqlite3_wal_hook(database_.get(), &SqliteStore::on_wal, this);
  }

  /// Commits what was appended; its completions are not delivered.
  ~SqliteStore() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      leaving_ = true;
    }
    wake_.notify_one();
  }

  void append(Batch batch, std::function<void(Result<void>)> done) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failure_) {  // completions_ holds it, so completion_fd() is readable already
        completions_.push_back(Completion{std::move(done), *failure_});
        return;
      }
      queue_.push_back(Pending{std::move(batch), std::move(done)});
      if (!thread_.joinable()) thread_ = std::jthread([this] { serve(); });
    }
    wake_.notify_one();
  }

  int completion_fd() const override { return completion_fd_.get(); }

  void drain() override {
    std::uint64_t count = 0;
    (void)!::read(completion_fd_.get(), &count, sizeof count);
    std::vector<Completion> ready;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ready.swap(completions_);
      failure_.reset();
    }
    for (Completion& completion : ready) {
      if (completion.done) completion.done(std::move(completion.result));
    }
  }

  Result<void> load(const std::function<void(Row)>& visit) override {
    Result<void> read = store::read_rows(database_, visit);
    if (read) store::trust(database_);
    return read;
  }

 private:
  struct Pending {
    Batch batch;
    std::function<void(Result<void>)> done;
  };
  struct Completion {
    std::function<void(Result<void>)> done;
    Result<void> result;
  };

  static int on_wal(void* self, sqlite3*, const char*, int pages) {
    static_cast<SqliteStore*>(self)->log_pages_ = pages;
    return SQLITE_OK;
  }

  // ---- the store thread --------------------------------------------------------------------

  void serve() {
    while (true) {
      std::vector<Pending> group = next_group();
      if (group.empty()) return;
      post(commit(group));
      if (log_pages_ >= kPagesTooMany) checkpoint();
    }
  }

  // Waits for batches; empty: the store is being closed and everything is written.
  std::vector<Pending> next_group() {
    std::vector<Pending> group;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto something = [this] { return leaving_ || !queue_.empty(); };
    if (log_pages_ >= kPagesWorthWriting && !wake_.wait_for(lock, kIdle, something)) {
      lock.unlock();
      checkpoint();
      give_memory_back();
      lock.lock();
    }
    wake_.wait(lock, something);
    group.swap(queue_);
    return group;
  }

  std::vector<Completion> commit(std::vector<Pending>& group) {
    Result<void> result = transact(group);
    const bool one_by_one = !result && group.size() > 1;
    std::vector<Completion> completions;
    completions.reserve(group.size());
    if (one_by_one) result = {};
    for (Pending& pending : group) {
      if (one_by_one && result) result = transact(std::span<Pending>(&pending, 1));
      completions.push_back({std::move(pending.done), result});
    }
    return completions;
  }

  Result<void> transact(std::span<Pending> group) {
    Result<void> done = database_.exec("BEGIN IMMEDIATE");
    for (const Pending& pending : group) {
      if (done) done = writer_.write(pending.batch);
    }
    if (done) done = database_.exec("COMMIT");
    // A full disk may have rolled back by itself already.
    if (!done && database_.in_transaction()) (void)database_.exec("ROLLBACK");
    done ? writer_.committed() : writer_.rolled_back();
    return done;
  }

  // A failure here loses nothing: the log stays, and the next checkpoint tries again.
  void checkpoint() {
    const int code = sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                               nullptr, nullptr);
    if (code == SQLITE_OK) log_pages_ = 0;
  }

  // A submit of a million jobs passes through here once; its memory should not stay.
  void give_memory_back() {
    sqlite3_db_release_memory(database_.get());
    ::malloc_trim(0);
  }

  void post(std::vector<Completion> completions) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!completions.back().result) {
        failure_ = completions.back().result.error();
        for (Pending& pending : std::exchange(queue_, {})) {
          completions.push_back({std::move(pending.done), *failure_});
        }
      }
      for (Completion& c : completions) completions_.push_back(std::move(c));
    }
    const std::uint64_t one = 1;
    (void)!::write(completion_fd_.get(), &one, sizeof one);
  }

  // Used by the deciding thread until the store thread starts, by the store thread from then on.
  store::Database database_;
  store::RowWriter writer_;
  int log_pages_ = 0;  // since the last checkpoint

  os::UniqueFd completion_fd_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Pending> queue_;           // guarded by mutex_
  std::vector<Completion> completions_;  // guarded by mutex_
  std::optional<Error> failure_;         // guarded by mutex_; not yet delivered
  bool leaving_ = false;                 // guarded by mutex_
  std::jthread thread_;                  // last: joined before what it uses goes away
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path) {
  os::UniqueFd completion_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!completion_fd) return os_error("eventfd");
  Result<store::Database> database = store::open_store_file(path);
  if (!database) return std::move(database).error();
  Result<store::RowWriter> writer = store::RowWriter::prepare(*database);
  if (!writer) {
    Error error = std::move(writer).error();
    return store::refused(path,
                          "has other tables than this version expects (" + error.message + ")");
  }
  return std::unique_ptr<Store>(std::make_unique<SqliteStore>(
      *std::move(database), *std::move(writer), std::move(completion_fd)));
}

}  // namespace pergpu
