// The figures: an answer takes a keeper well under a millisecond, but on a machine whose cores are
// all taken it may wait for one.
#include "run/stop_watch.h"

#include <algorithm>

namespace pergpu {
namespace {

constexpr std::int64_t kToEndNs = 500'000'000;       // what a tree takes to go when it is killed
constexpr std::int64_t kToAnswerNs = 1'000'000'000;  // what a keeper has for a sign of life
constexpr std::int64_t kAgainNs = 2'000'000'000;     // until it is asked again

}  // namespace

StopWatch::~StopWatch() { forget_all(); }

void StopWatch::forget_all() {
  for (const auto& [id, watched] : watched_) parts_.loop->cancel(watched.timer);
  watched_.clear();
}

void StopWatch::watch(AttemptId id, std::int64_t kill_ns) {
  const std::int64_t due_ns = kill_ns + kToEndNs;
  const auto [it, is_new] = watched_.try_emplace(id, Watched{.due_ns = due_ns});
  if (!is_new) {
    if (it->second.was_asked || due_ns >= it->second.due_ns) return;
    it->second.due_ns = due_ns;
    parts_.loop->cancel(it->second.timer);
  }
  at(id, due_ns, &StopWatch::ask);
}

void StopWatch::at(AttemptId id, std::int64_t time_ns, void (StopWatch::*next)(AttemptId)) {
  watched_.at(id).timer = parts_.loop->at(time_ns, [this, id, next] {
    if (parts_.is_pending(id)) return (this->*next)(id);
    watched_.erase(id);
  });
}

void StopWatch::ask(AttemptId id) {
  watched_.at(id).was_asked = true;
  parts_.ask(id);
  at(id, parts_.clock->now().boot_ns + kToAnswerNs, &StopWatch::judge);
}

void StopWatch::judge(AttemptId id) {
  if (!parts_.has_answered(id)) parts_.end(id);
  at(id, parts_.clock->now().boot_ns + kAgainNs, &StopWatch::ask);
}

}  // namespace pergpu
