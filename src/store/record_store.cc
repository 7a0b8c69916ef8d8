// One thread writes, as in the store on SQLite: what queues up while a file is being written makes
// the next one.  Nothing waits for the news that a program has started, so alone it waits for
// company.
#include "store/record_store.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "store/result_file.h"

namespace pergpu {
namespace {

/// How long rows that nothing waits for may be held back.
constexpr std::chrono::milliseconds kPatience{1000};

bool waits_for_company(const Batch& batch) {
  bool has_start = false;
  for (const Row& row : batch) {
    const auto* event = std::get_if<row::Event>(&row);
    if (event == nullptr) continue;
    if (!std::holds_alternative<event::Started>(*event->event)) return false;
    has_start = true;
  }
  return has_start;
}

}  // namespace

Result<std::unique_ptr<RecordStore>> RecordStore::open(Parts parts) {
  os::UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return os_error("eventfd");
  return std::unique_ptr<RecordStore>(new RecordStore(std::move(parts), std::move(fd)));
}

RecordStore::RecordStore(Parts parts, os::UniqueFd completion_fd)
    : parts_(std::move(parts)), completion_fd_(std::move(completion_fd)) {
  for (const Row& row : parts_.rows) note(row);
  for (const store::Record& record : parts_.told)
    attempts_[record.attempt.job] = record.attempt.number;
}
RecordStore::~RecordStore() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
}

void RecordStore::append(std::shared_ptr<const Batch> batch,
                         std::function<void(Result<void>)> done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) {
      completions_.push_back({std::move(done), *failure_});
      return;
    }
    if (sealed_) batch.reset();
    urgent_ = urgent_ || batch == nullptr || !waits_for_company(*batch);
    queue_.push_back({std::move(batch), std::move(done)});
    // Not before: the thread must find signals blocked (os/loop.h).
    if (!thread_.joinable()) thread_ = std::jthread([this] { serve(); });
  }
  wake_.notify_one();
}

void RecordStore::drain() {
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

Result<void> RecordStore::load(const RowVisitor& visit,
                               const std::function<Result<void>()>& check) {
  const auto refused = [&](const Error& error) {
    return Error{ErrorKind::Corrupt, 0, parts_.folder + ": " + error.message};
  };
  for (const Row& row : parts_.rows) {
    if (Result<void> taken = visit(row); !taken) return refused(taken.error());
  }
  for (const store::Record& record : parts_.told) {
    Result<void> taken =
        visit(row::Event{.job = record.attempt.job, .event = record.event, .at = record.at});
    if (!taken) return refused(taken.error());
  }
  parts_.rows.clear();
  parts_.told.clear();
  return check();
}

void RecordStore::fetch(std::vector<SweepId>, RowVisitor, std::function<void(Result<void>)> done) {
  answer(std::move(done), Result<void>());
}
void RecordStore::backup(std::string file, std::function<void(Result<std::int64_t>)> done) {
  done(Error{ErrorKind::Invalid, 0, file + ": a task on a node has no store to copy"});
}

void RecordStore::seal() {
  const std::lock_guard<std::mutex> lock(mutex_);
  sealed_ = true;
  for (Pending& pending : queue_) pending.batch.reset();
}

Result<void> RecordStore::finish(bool closed) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  whole_.closed = closed;
  Result<void> written =
      store::write_result_file(parts_.folder, name_of(0), to_text(whole_), parts_.mode, true);
  if (!written) return written;
  for (std::int32_t part = 1; part <= parts_written_; ++part) {
    ::unlink((parts_.folder + "/" + name_of(part)).c_str());
  }
  return {};
}

std::string RecordStore::name_of(std::int32_t part) const {
  return to_string(store::RecordName{parts_.task, parts_.life, part});
}

void RecordStore::answer(std::function<void(Result<void>)> done, Result<void> result) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    completions_.push_back({std::move(done), std::move(result)});
  }
  wake_reader();
}

void RecordStore::wake_reader() {
  const std::uint64_t one = 1;
  (void)!::write(completion_fd_.get(), &one, sizeof one);
}

// ---- the store thread --------------------------------------------------------------------

void RecordStore::serve() {
  for (;;) {
    std::vector<Pending> group;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return leaving_ || !queue_.empty(); });
      wake_.wait_for(lock, kPatience, [this] { return leaving_ || urgent_; });
      urgent_ = false;
      group.swap(queue_);
      if (group.empty() && leaving_) return;
    }
    write(std::move(group));
  }
}

/// The group is one file, or none of it is stored.
void RecordStore::write(std::vector<Pending> group) {
  store::RecordFile file;
  const std::map<JobId, std::int32_t> before = attempts_;
  for (const Pending& pending : group) {
    if (pending.batch == nullptr) continue;
    for (const Row& row : *pending.batch) {
      if (std::optional<store::Record> record = note(row))
        file.records.push_back(*std::move(record));
      if (const auto* usage = std::get_if<row::Usage>(&row)) file.usage.push_back(*usage);
    }
  }
  Result<void> written;
  const bool tells = !file.records.empty() || !file.usage.empty();
  if (tells) {
    written = store::write_result_file(parts_.folder, name_of(parts_written_ + 1), to_text(file),
                                       parts_.mode, true);
  }
  if (!written) {
    attempts_ = before;
  } else if (tells) {
    ++parts_written_;
    std::move(file.usage.begin(), file.usage.end(), std::back_inserter(whole_.usage));
    std::move(file.records.begin(), file.records.end(), std::back_inserter(whole_.records));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Pending& pending : group) completions_.push_back({std::move(pending.done), written});
    if (!written) {
      failure_ = written.error();
      for (Pending& pending : queue_) completions_.push_back({std::move(pending.done), written});
      queue_.clear();
    }
  }
  wake_reader();
}

/// The row as a record; nullopt: it does not go out.
std::optional<store::Record> RecordStore::note(const Row& row) {
  const auto* event = std::get_if<row::Event>(&row);
  if (event == nullptr) return std::nullopt;
  std::int32_t& attempt = attempts_[event->job];
  if (const auto* starting = std::get_if<event::Starting>(&*event->event)) {
    attempt = starting->attempt;
  }
  if (const auto* folded = std::get_if<event::Folded>(&*event->event)) attempt = folded->attempts;
  return store::Record{{event->job, attempt}, *event->event, event->at};
}

}  // namespace pergpu
