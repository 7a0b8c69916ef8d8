// The store fails every batch that was appended before a failure was seen (store.h), so `unsaved_`
// is always a suffix of what was recorded and its order is kept.
#include "state/journal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace pergpu {

Journal::Journal(World& world, Store& store) : world_(world), store_(store) {}

void Journal::record(Row row) {
  Result<void> taken = world_.absorb(row);
  if (!taken) {
    std::fprintf(stderr, "pergpu: bug: %s\n", taken.error().message.c_str());
    std::abort();
  }
  batch_.push_back(std::move(row));
}

void Journal::then(std::function<void()> effect) { effects_.push_back(std::move(effect)); }

void Journal::flush() {
  if (batch_.empty() && effects_.empty()) return;
  Turn turn{std::make_shared<const Batch>(std::exchange(batch_, {})), std::exchange(effects_, {})};
  if (turn.rows->empty() && in_flight_ == 0 && unsaved_.empty()) {
    for (std::function<void()>& effect : turn.effects) effect();
    return;
  }
  if (!writable()) {
    unsaved_.push_back(std::move(turn));
    return;
  }
  append(std::move(turn));
}

void Journal::append(Turn turn) {
  ++in_flight_;
  auto shared = std::make_shared<Turn>(std::move(turn));
  store_.append(shared->rows, [this, shared](const Result<void>& stored) {
    --in_flight_;
    if (!stored) {
      failure_ = stored.error().message;
      unsaved_.push_back(std::move(*shared));
      return;
    }
    for (std::function<void()>& effect : shared->effects) effect();
  });
}

void Journal::commit_first(Batch batch, std::function<void(Result<void>)> done) {
  if (!writable()) {
    done(Error{ErrorKind::Full, 0, failure_});
    return;
  }
  ++in_flight_;
  auto shared = std::make_shared<const Batch>(std::move(batch));
  store_.append(shared, [this, shared, done = std::move(done)](Result<void> stored) {
    --in_flight_;
    if (stored) {
      for (const Row& row : *shared) {
        Result<void> taken = world_.absorb(row);
        if (!taken) {
          std::fprintf(stderr, "pergpu: bug: %s\n", taken.error().message.c_str());
          std::abort();
        }
      }
    }
    done(std::move(stored));
  });
}

void Journal::fetch(std::vector<SweepId> sweeps, std::function<void(Result<void>)> done) {
  std::ranges::sort(sweeps);
  sweeps.erase(std::unique(sweeps.begin(), sweeps.end()), sweeps.end());
  const auto is_archived = [this](SweepId id) { return world_.archived().contains(id); };
  if (std::none_of(sweeps.begin(), sweeps.end(), is_archived)) return done({});
  to_fetch_.push_back({std::move(sweeps), std::move(done)});
  if (!fetches_) fetch_next();
}

/// Into a separate world, on the store's thread: a sweep may have millions of jobs, and what is
/// half there must not be seen.
void Journal::fetch_next() {
  while (!to_fetch_.empty()) {
    std::vector<SweepId>& sweeps = to_fetch_.front().sweeps;
    std::erase_if(sweeps, [this](SweepId id) { return !world_.archived().contains(id); });
    if (!sweeps.empty()) break;
    const Fetch fetched = std::move(to_fetch_.front());
    to_fetch_.pop_front();
    fetched.done({});
  }
  if (to_fetch_.empty() || fetches_) return;
  fetches_ = true;
  auto part = std::make_shared<World>();
  store_.fetch(
      to_fetch_.front().sweeps, [part](const Row& row) { return part->absorb(row); },
      [this, read_into = std::weak_ptr(part)](Result<void> read) {
        fetches_ = false;
        if (read) read = world_.adopt(to_fetch_.front().sweeps, std::move(*read_into.lock()));
        const Fetch fetched = std::move(to_fetch_.front());
        to_fetch_.pop_front();
        fetched.done(std::move(read));
        if (!fetches_) fetch_next();
      });
}

void Journal::retry() {
  if (writable() || in_flight_ > 0) return;
  failure_.clear();
  for (Turn& turn : std::exchange(unsaved_, {})) append(std::move(turn));
}

}  // namespace pergpu
