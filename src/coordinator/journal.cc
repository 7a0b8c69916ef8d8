// The store fails every batch that was appended before a failure was seen (store.h), so `unsaved_`
// is always a suffix of what was recorded and its order is kept.
#include "coordinator/journal.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace pergpu {

Journal::Journal(World& world, Store& store, os::Clock& clock)
    : world_(world), store_(store), clock_(clock) {}

void Journal::record(Row row) {
  Result<void> taken = world_.absorb(row);
  if (!taken) {
    std::fprintf(stderr, "pergpu: bug: %s\n", taken.error().message.c_str());
    std::abort();
  }
  batch_.push_back(std::move(row));
}

void Journal::event(JobId job, JobEvent e) {
  record(row::Event{.job = job, .event = std::move(e), .at = clock_.now()});
}

void Journal::then(std::function<void()> effect) { effects_.push_back(std::move(effect)); }

void Journal::flush() {
  if (batch_.empty() && effects_.empty()) return;
  Turn turn{std::exchange(batch_, {}), std::exchange(effects_, {})};
  if (turn.rows.empty() && in_flight_ == 0 && unsaved_.empty()) {
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
  Batch rows = shared->rows;
  store_.append(std::move(rows), [this, shared](const Result<void>& stored) {
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
  auto shared = std::make_shared<Batch>(std::move(batch));
  Batch rows = *shared;
  store_.append(std::move(rows), [this, shared, done = std::move(done)](Result<void> stored) {
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

void Journal::retry() {
  if (writable() || in_flight_ > 0) return;
  failure_.clear();
  for (Turn& turn : std::exchange(unsaved_, {})) append(std::move(turn));
}

}  // namespace pergpu
