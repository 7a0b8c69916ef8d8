// What is durable, and how it becomes so (disk.h).
#include "simulation/disk.h"

#include <algorithm>
#include <cerrno>
#include <variant>

namespace pergpu::simulation {

void Disk::commit(const Row& row, int allowed_retries) {
  std::visit(Overloaded{
                 [&](const row::Meta& meta) { meta_[meta.key] = meta; },
                 [&](const row::Limit& limit) { limits_[limit.name] = limit; },
                 [&](const row::Sweep& sweep) { sweeps_[sweep.id] = sweep; },
                 [&](const row::Run& run) { runs_.push_back(run); },
                 [&](const row::NewJob& job) { jobs_.push_back(job); },
                 [&](const row::Event& event) { events_.push_back(event); },
                 [&](const row::Archived&) {},
                 [&](const row::Usage&) {},  // nothing that is decided depends on it
                 [&](const row::Environment& environment) {
                   if (environment.entries.empty()) {
                     environments_.erase(environment.sweep);
                   } else {
                     environments_.insert(environment.sweep);
                   }
                 },
             },
             row);
  archive_.take(row);
  seen_(row, allowed_retries);
}

Result<void> Disk::replay(const RowVisitor& visit) const {
  Result<void> taken;
  const auto give = [&](const Row& row) {
    if (taken) taken = visit(row);
  };
  for (const auto& [key, meta] : meta_) give(meta);
  for (const auto& [name, limit] : limits_) give(limit);
  for (const auto& [id, archived] : archive_.archived()) give(archived);
  if (!taken) return taken;
  return replay([&](SweepId sweep) { return !archive_.contains(sweep); }, visit);
}

Result<void> Disk::replay(const std::set<SweepId>& archived, const RowVisitor& visit) const {
  return replay([&](SweepId sweep) { return archived.contains(sweep); }, visit);
}

Result<void> Disk::replay(const std::function<bool(SweepId)>& wanted,
                          const RowVisitor& visit) const {
  Result<void> taken;
  const auto give = [&](const Row& row) {
    if (taken && wanted(archive_.sweep_of(row))) taken = visit(row);
  };
  for (const auto& [id, sweep] : sweeps_) give(sweep);
  for (const row::Run& run : runs_) give(run);
  for (const row::NewJob& job : jobs_) give(job);
  for (const row::Event& event : events_) give(event);
  return taken;
}

void DiskStore::append(std::shared_ptr<const Batch> batch, std::function<void(Result<void>)> done) {
  faults_.pass();
  Entry entry{.rows = *batch, .allowed_retries = {}, .done = std::move(done)};
  for (const Row& row : entry.rows) {
    const auto* event = std::get_if<row::Event>(&row);
    if (event != nullptr) on_event_(*event);
    const Job* job = event == nullptr ? nullptr : world_.job(event->job);
    entry.allowed_retries.push_back(job == nullptr ? 0 : world_.step_of(*job).spec.retries.max);
  }
  // The journal has no holes: see store.h.
  const bool after_failure = std::any_of(
      queue_.begin(), queue_.end(), [](const Entry& other) { return other.fate == Fate::Failed; });
  if (after_failure) entry.fate = Fate::Failed;
  queue_.push_back(std::move(entry));
  write();
}

void DiskStore::write() {
  if (std::exchange(writes_, true)) return;
  agenda_.in(dice_.spread(50'000, 20 * kMillisecond), Owner::Coordinator, [this] {
    for (Entry& entry : queue_) {
      if (entry.fate != Fate::Waits) continue;
      if (is_full) {
        entry.fate = Fate::Failed;
      } else {
        commit(entry);
      }
    }
    agenda_.in(dice_.spread(10'000, kMillisecond), Owner::Coordinator, [this] {
      writes_ = false;
      drain();
      if (!queue_.empty()) write();
    });
  });
}

void DiskStore::commit(Entry& entry) {
  entry.fate = Fate::Stored;
  for (std::size_t i = 0; i < entry.rows.size(); ++i) {
    disk_.commit(entry.rows[i], entry.allowed_retries[i]);
  }
}

void DiskStore::drain() {
  while (!queue_.empty() && queue_.front().fate != Fate::Waits) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    if (entry.fate == Fate::Stored) {
      entry.done({});
    } else {
      entry.done(Error{ErrorKind::Full, ENOSPC, "the disk is full"});
    }
  }
}

void DiskStore::kill() {
  for (Entry& entry : queue_) {
    if (entry.fate == Fate::Stored) continue;
    if (entry.fate == Fate::Failed || is_full || dice_.one_in(3)) return;
    commit(entry);
  }
}

void DiskStore::backup(std::string file, std::function<void(Result<std::int64_t>)> done) {
  done(Error{ErrorKind::Unavailable, 0, "no file system to write " + file + " to"});
}

void DiskStore::fetch(std::vector<SweepId> archived, RowVisitor visit,
                      std::function<void(Result<void>)> done) {
  if (std::set(archived.begin(), archived.end()).size() != archived.size()) {
    throw Violation("a sweep is fetched twice at once");
  }
  agenda_.in(dice_.spread(10'000, 20 * kMillisecond), Owner::Coordinator,
             [this, archived = std::set(archived.begin(), archived.end()), visit = std::move(visit),
              done = std::move(done)] { done(disk_.replay(archived, visit)); });
}

Result<void> DiskStore::load(const RowVisitor& visit, const std::function<Result<void>()>& check) {
  Result<void> read = disk_.replay(visit);
  return read ? check() : read;
}

}  // namespace pergpu::simulation
