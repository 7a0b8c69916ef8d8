// From five seconds to two minutes: a controller counts what it is asked.
#include "slurm/submit_pauses.h"

#include <algorithm>
#include <utility>

#include "timers.h"

namespace pergpu {
namespace {

constexpr std::int64_t kShortestSubmitPause = 5 * kSecond;
constexpr std::int64_t kLongestSubmitPause = 120 * kSecond;

}  // namespace

void SubmitPauses::Pause::lengthen(std::int64_t now_ns) {
  length_ns = std::clamp(2 * length_ns, kShortestSubmitPause, kLongestSubmitPause);
  next_ns = now_ns + length_ns;
}

void SubmitPauses::refused(SweepId sweep, std::string words, std::int64_t now_ns) {
  Own& own = own_[sweep];
  own.words = std::move(words);
  own.pause.lengthen(now_ns);
}

void SubmitPauses::had_too_many(SweepId sweep, int tasks) {
  own_[sweep].most_tasks = std::max(1, tasks / 2);
}

void SubmitPauses::unheard(std::int64_t now_ns) { all_.lengthen(now_ns); }

void SubmitPauses::taken(SweepId sweep, int longest) {
  all_ = {};
  const auto it = own_.find(sweep);
  if (it == own_.end()) return;
  const int most = 2 * it->second.most_tasks;
  if (most == 0 || most >= longest) {
    own_.erase(it);
  } else {
    it->second = {.most_tasks = most};
  }
}

std::int64_t SubmitPauses::next_ns(SweepId sweep) const {
  const auto it = own_.find(sweep);
  return it == own_.end() ? all_.next_ns : std::max(all_.next_ns, it->second.pause.next_ns);
}

int SubmitPauses::most_tasks(SweepId sweep) const {
  const auto it = own_.find(sweep);
  return it == own_.end() ? 0 : it->second.most_tasks;
}

std::string SubmitPauses::words(SweepId sweep) const {
  const auto it = own_.find(sweep);
  return it == own_.end() ? std::string() : it->second.words;
}

}  // namespace pergpu
