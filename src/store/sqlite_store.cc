// The store on SQLite.
//
// The deciding thread only appends to a list and collects completions.  The store thread takes
// whatever the list holds (that is the group: what queued up during the previous commit), writes
// it as one transaction, posts the completions and wakes the other side through an eventfd. Nothing
// waits for a group to fill: an idle store commits a batch at once.
//
// When anything in a group fails, the group is rolled back and its batches become separate
// transactions, one after the other, up to the one that fails.  From then on every batch fails with
// the same error (see Store::append: the journal has no holes) until drain() delivers it: the
// failure and all that it took along are delivered together.
//
// Work that nothing waits for is done in slices of a few milliseconds, and between two slices
// whatever was appended is committed first:
//   backup      a slice after each commit, and one after the other when there are none;
//   fetch       of archived sweeps, likewise; of an attempt's usage, whole;
//   compaction  (compaction.h) when nothing was appended for a while and many events lie unfolded;
//               when they are very many, a slice after each commit, too;
//   checkpoint  the log is written back into the file when nothing was appended for a while, or
//               when it has grown so long that reading it after a crash would take time;
//   memory      that was freed goes back to the system, when all that is done.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "os/fd.h"
#include "store/backup.h"
#include "store/compaction.h"
#include "store/reader.h"
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
constexpr int kPagesOfFolding = 4'096;  // checkpoint while folding: 16 MiB of log
constexpr int kPagesABackupSlice = 256;
constexpr std::int64_t kRowsAFetchSlice = 500;
constexpr std::size_t kRowsWorthTrimming = 1000;  // give memory back when idle

class SqliteStore final : public Store {
 public:
  SqliteStore(store::LogOfReading log, store::Database database, store::RowWriter writer,
              store::Compaction compaction, os::UniqueFd completion_fd, Folding folding)
      : log_(std::move(log)),
        database_(std::move(database)),
        writer_(std::move(writer)),
        compaction_(std::move(compaction)),
        folding_(folding),
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

  using Store::append;
  void append(std::shared_ptr<const Batch> batch, std::function<void(Result<void>)> done) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failure_) {  // completions_ holds it, so completion_fd() is readable already
        completions_.push_back({.done = std::move(done), .result = *failure_});
        return;
      }
      queue_.push_back(Pending{std::move(batch), std::move(done)});
      start_thread();
    }
    wake_.notify_one();
  }

  void backup(std::string file, std::function<void(Result<std::int64_t>)> done) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      backups_.push_back(BackupRequest{std::move(file), std::move(done)});
      start_thread();
    }
    wake_.notify_one();
  }

  void fetch(std::vector<SweepId> archived, RowVisitor visit,
             std::function<void(Result<void>)> done) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fetches_.push_back(Fetch{std::move(archived), std::move(visit), std::move(done)});
      start_thread();
    }
    wake_.notify_one();
  }

  void read_usage(JobId job, std::int32_t attempt,
                  const std::function<void(Result<std::vector<row::Usage>>)>& done) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      usage_requests_.push_back(UsageRequest{job, attempt, done});
      start_thread();
    }
    wake_.notify_one();
  }

  int completion_fd() const override { return completion_fd_.get(); }

  void drain() override {
    std::uint64_t count = 0;
    (void)!::read(completion_fd_.get(), &count, sizeof count);
    std::vector<Completion> ready;
    std::vector<BackupAnswer> backed_up;
    std::vector<FetchAnswer> fetched;
    std::vector<UsageAnswer> usage;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ready.swap(completions_);
      backed_up.swap(backup_answers_);
      fetched.swap(fetch_answers_);
      usage.swap(usage_answers_);
      failure_.reset();
    }
    std::size_t rows = 0;
    for (Completion& completion : ready) {
      if (completion.done) completion.done(std::move(completion.result));
      rows += completion.rows;
    }
    ready.clear();  // with what they held
    tell_freed(rows);
    for (BackupAnswer& answer : backed_up) answer.done(std::move(answer.result));
    for (FetchAnswer& answer : fetched) answer.done(std::move(answer.result));
    for (UsageAnswer& answer : usage) answer.done(std::move(answer.result));
  }

  using Store::load;
  Result<void> load(const RowVisitor& visit, const std::function<Result<void>()>& check) override {
    Result<void> read = store::read_rows(database_, store::Reach::Start, visit);
    if (read) read = check();
    if (!read && read.error().kind == ErrorKind::Corrupt) {
      return store::refused(database_.path(), "is damaged (" + read.error().message + ")");
    }
    if (!read) return read;
    if (Result<void> accepted = store::accept(database_); !accepted) return accepted;
    Result<std::int64_t> unfolded = compaction_.unfolded();
    if (!unfolded) return std::move(unfolded).error();
    unfolded_ = *unfolded;
    if (unfolded_ < folding_.begin) return {};
    const std::lock_guard<std::mutex> lock(mutex_);
    start_thread();
    return {};
  }

 private:
  struct Pending {
    std::shared_ptr<const Batch> batch;
    std::function<void(Result<void>)> done;
  };
  struct Completion {
    std::function<void(Result<void>)> done = {};
    Result<void> result = {};
    std::size_t rows = 0;  // that were written
  };

  struct BackupRequest {
    std::string file;
    std::function<void(Result<std::int64_t>)> done;
  };
  struct BackupAnswer {
    std::function<void(Result<std::int64_t>)> done;
    Result<std::int64_t> result;
  };

  struct Fetch {
    std::vector<SweepId> sweeps = {};
    RowVisitor visit = {};
    std::function<void(Result<void>)> done = {};
  };
  struct FetchAnswer {
    RowVisitor visit = {};
    std::function<void(Result<void>)> done = {};
    Result<void> result = {};
  };

  struct UsageRequest {
    JobId job = {};
    std::int32_t attempt = 0;
    std::function<void(Result<std::vector<row::Usage>>)> done = {};
  };
  struct UsageAnswer {
    std::function<void(Result<std::vector<row::Usage>>)> done;
    Result<std::vector<row::Usage>> result;
  };

  /// That many rows are not needed any more: there may be memory to give back.
  void tell_freed(std::size_t rows) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      freed_ += rows;
      if (freed_ < kRowsWorthTrimming) return;
    }
    wake_.notify_one();
  }

  void start_thread() {  // REQUIRES: mutex_ is held
    if (!thread_.joinable()) thread_ = std::jthread([this] { serve(); });
  }

  static int on_wal(void* self, sqlite3*, const char*, int pages) {
    static_cast<SqliteStore*>(self)->log_pages_ = pages;
    return SQLITE_OK;
  }

  // ---- the store thread --------------------------------------------------------------------

  void serve() {
    while (true) {
      const Work work = next_work();
      if (work == Work::Leave) return;
      if (!group_.empty()) {
        post(commit(group_));
        group_.clear();
      }
      copy_slice();
      fetch_slice();
      answer_usage();
      const bool folds = work == Work::Tidy && wants_folding();
      if (!reader_ && (folds || unfolded_ >= folding_.always)) fold_slice();
      tidying_ = folds && unfolded_ > folding_.keep;
      const bool idle = work == Work::Tidy && !tidying_;
      if (log_pages_ >= (idle ? kPagesWorthWriting : tidying_ ? kPagesOfFolding : kPagesTooMany)) {
        checkpoint();
      }
      if (idle && std::exchange(rows_, 0) >= kRowsWorthTrimming) give_memory_back();
    }
  }

  enum class Work : std::uint8_t {
    Commit,  // group_ has batches, or a backup or a fetch goes on
    Tidy,    // nothing was appended for a while
    Leave    // the store is being closed and everything is written
  };
  Work next_work() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto something = [this] {
      return leaving_ || !queue_.empty() || !backups_.empty() || backup_ || !fetches_.empty() ||
             reader_ || !usage_requests_.empty() || freed_ >= kRowsWorthTrimming;
    };
    bool idle = false;
    if (wants_folding() || log_pages_ >= kPagesWorthWriting || rows_ >= kRowsWorthTrimming) {
      // Tidying goes on slice by slice until something is appended; then another pause is waited
      // for.
      idle = !wake_.wait_for(lock, tidying_ ? std::chrono::milliseconds(0) : kIdle, something);
    } else {
      wake_.wait(lock, something);
    }
    group_.swap(queue_);
    if (freed_ >= kRowsWorthTrimming) rows_ += std::exchange(freed_, 0);
    if (idle) return Work::Tidy;
    return leaving_ && group_.empty() ? Work::Leave : Work::Commit;
  }

  bool wants_folding() const { return tidying_ || unfolded_ >= folding_.begin; }

  // A failure loses nothing; where events contradict each other they stay as they are.
  void fold_slice() {
    if (unfolded_ <= folding_.keep) return;
    const std::int64_t most = std::min(folding_.slice, unfolded_ - folding_.keep);
    Result<std::int64_t> folded = compaction_.fold(database_, most);
    if (folded) {
      unfolded_ -= *folded;
    } else {
      unfolded_ = std::numeric_limits<std::int64_t>::min() / 2;  // not again in this process
    }
  }

  void copy_slice() {
    if (!backup_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (backups_.empty()) return;
      copying_ = std::move(backups_.front());
      backups_.pop_front();
    }
    Result<bool> copied = false;
    if (!backup_) {
      Result<store::Backup> begun = store::Backup::begin(database_, copying_.file);
      if (begun) {
        backup_.emplace(*std::move(begun));
      } else {
        copied = std::move(begun).error();
      }
    }
    if (copied) copied = backup_->step(kPagesABackupSlice);
    if (copied && !*copied) return;
    Result<std::int64_t> result =
        copied ? Result<std::int64_t>(backup_->bytes()) : std::move(copied).error();
    backup_.reset();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      backup_answers_.push_back({std::move(copying_.done), std::move(result)});
    }
    signal();
  }

  Error unreadable(Error error) const {
    error.message = fmt::format(
        "{}: can't read an ended sweep ({}); for details run `pergpu store check`; everything else "
        "continues. Stop the coordinator before you move any file",
        database_.path(), error.message);
    return error;
  }

  void fetch_slice() {
    if (!reader_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (fetches_.empty()) return;
      fetching_ = std::move(fetches_.front());
      fetches_.pop_front();
    }
    Result<bool> all = false;
    if (!reader_) {
      Result<store::SweepReader> begun =
          store::SweepReader::begin(database_, std::move(fetching_.sweeps));
      if (begun) {
        reader_.emplace(*std::move(begun));
      } else {
        all = std::move(begun).error();
      }
    }
    if (all) all = reader_->step(kRowsAFetchSlice, fetching_.visit);
    if (all && !*all) return;
    reader_.reset();
    FetchAnswer answer{.done = std::move(fetching_.done)};
    if (all) {
      answer.visit = std::move(fetching_.visit);
    } else {
      answer.result = unreadable(std::move(all).error());
    }
    fetching_ = {};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fetch_answers_.push_back(std::move(answer));
    }
    rows_ += kRowsWorthTrimming;
    signal();
  }

  /// One attempt's rows: a few milliseconds for one that ran for weeks.
  void answer_usage() {
    UsageRequest request;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (usage_requests_.empty()) return;
      request = std::move(usage_requests_.front());
      usage_requests_.pop_front();
    }
    UsageAnswer answer{std::move(request.done),
                       store::read_usage(database_, request.job, request.attempt)};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      usage_answers_.push_back(std::move(answer));
    }
    signal();
  }

  std::vector<Completion> commit(std::vector<Pending>& group) {
    Result<void> result = transact(group);
    const bool one_by_one = !result && group.size() > 1;
    std::vector<Completion> completions;
    completions.reserve(group.size());
    if (one_by_one) result = {};
    for (Pending& pending : group) {
      if (one_by_one && result) result = transact(std::span<Pending>(&pending, 1));
      completions.push_back({.done = std::move(pending.done),
                             .result = result,
                             .rows = result ? pending.batch->size() : 0});
      pending.batch.reset();
    }
    return completions;
  }

  Result<void> transact(std::span<Pending> group) {
    Result<void> done = database_.exec("BEGIN IMMEDIATE");
    for (const Pending& pending : group) {
      if (done) done = writer_.write(*pending.batch);
    }
    if (done) done = database_.exec("COMMIT");
    // A full disk may have rolled back by itself already.
    if (!done && database_.in_transaction()) (void)database_.exec("ROLLBACK");
    done ? writer_.committed() : writer_.rolled_back();
    if (done) {
      for (const Pending& pending : group) {
        unfolded_ += std::ranges::count_if(
            *pending.batch, [](const Row& row) { return std::holds_alternative<row::Event>(row); });
      }
    }
    return done;
  }

  // A failure here loses nothing: the log stays, and the next checkpoint tries again.
  void checkpoint() {
    const int code = sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                               nullptr, nullptr);
    if (code == SQLITE_OK) log_pages_ = 0;
  }

  // What a submit of a million jobs, and thousands of ends, took on their way should not stay: the
  // allocator keeps what was freed between pieces that are still in use.
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
          completions.push_back({.done = std::move(pending.done), .result = *failure_});
        }
      }
      for (Completion& c : completions) completions_.push_back(std::move(c));
    }
    signal();
  }

  void signal() {
    const std::uint64_t one = 1;
    (void)!::write(completion_fd_.get(), &one, sizeof one);
  }

  store::LogOfReading log_;  // before database_
  // Used by the deciding thread until the store thread starts, by the store thread from then on.
  store::Database database_;
  store::RowWriter writer_;
  store::Compaction compaction_;
  const Folding folding_;
  int log_pages_ = 0;          // since the last checkpoint
  std::size_t rows_ = 0;       // since memory was given back last
  std::int64_t unfolded_ = 0;  // events
  bool tidying_ = false;
  std::vector<Pending> group_;  // being committed
  BackupRequest copying_;
  std::optional<store::Backup> backup_;
  Fetch fetching_;
  std::optional<store::SweepReader> reader_;

  os::UniqueFd completion_fd_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Pending> queue_;                // guarded by mutex_
  std::vector<Completion> completions_;       // guarded by mutex_
  std::deque<BackupRequest> backups_;         // guarded by mutex_
  std::vector<BackupAnswer> backup_answers_;  // guarded by mutex_
  std::deque<Fetch> fetches_;                 // guarded by mutex_
  std::vector<FetchAnswer> fetch_answers_;    // guarded by mutex_
  std::deque<UsageRequest> usage_requests_;   // guarded by mutex_
  std::vector<UsageAnswer> usage_answers_;    // guarded by mutex_
  std::optional<Error> failure_;              // guarded by mutex_; not yet delivered
  std::size_t freed_ = 0;                     // guarded by mutex_; rows, not yet in rows_
  bool leaving_ = false;                      // guarded by mutex_
  std::jthread thread_;                       // last: joined before what it uses goes away
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path, Folding folding) {
  os::UniqueFd completion_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!completion_fd) return os_error("eventfd");
  store::LogOfReading log(path);
  Result<store::Database> database = store::open_store_file(path);
  if (!database) return std::move(database).error();
  Result<store::RowWriter> writer = store::RowWriter::prepare(*database);
  Result<store::Compaction> compaction = store::Compaction::prepare(*database);
  if (!writer || !compaction) {
    Error error = writer ? std::move(compaction).error() : std::move(writer).error();
    return store::refused(path,
                          "has different tables than this version expects (" + error.message + ")");
  }
  return std::unique_ptr<Store>(
      std::make_unique<SqliteStore>(std::move(log), *std::move(database), *std::move(writer),
                                    *std::move(compaction), std::move(completion_fd), folding));
}

}  // namespace pergpu
