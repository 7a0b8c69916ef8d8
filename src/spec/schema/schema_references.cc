// Names that refer to other parts of the file: needs -> steps, uses -> [limits], and that the needs
// form no circle.
#include <fmt/core.h>

#include <algorithm>

#include "spec/schema/draft.h"
#include "spec/text/suggest.h"

namespace pergpu {
namespace {

int index_of_step(const Draft& draft, std::string_view name) {
  for (std::size_t i = 0; i < draft.steps.size(); ++i)
    if (draft.steps[i].spec.name == name) return static_cast<int>(i);
  return -1;
}

void resolve_need(Draft& draft, StepDraft& step, const NeedDraft& need) {
  int index = index_of_step(draft, need.step);
  if (index < 0) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string_view> names;
    for (const StepDraft& other : draft.steps)
      if (&other != &step) names.push_back(other.spec.name);
    std::string hint = did_you_mean(need.step, names);
    if (hint.empty()) {
      for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
        hint += fmt::format("{}{}", i == 0 ? "; other steps: " : ", ", names[i]);
      if (names.size() > kNamed) hint += ", …";
    }
    if (!draft.report.incomplete())
      draft.report.error(need.at, fmt::format("{} needs `{}`, but there is no such step{}",
                                              step.where, need.step, hint));
    return;
  }
  const StepDraft& other = draft.steps[static_cast<std::size_t>(index)];
  if (step.spec.once && !other.spec.once && need.scope == Need::Scope::SameRun)
    draft.report.error(need.at,
                       fmt::format("{0} is a once-step, so it needs all runs of {1}: write "
                                   "\"{1}:all\" (when all are done) or \"{1}:ended\"",
                                   step.where, need.step));
  for (const Need& earlier : step.spec.needs)
    if (earlier.step == index)
      draft.report.error(need.at, fmt::format("{} needs `{}` twice", step.where, need.step));
  step.spec.needs.push_back({.step = index, .scope = need.scope});
}

/// Reports each circle once, at the need that closes it.
class CircleSearch {
 public:
  explicit CircleSearch(Draft& draft) : draft_(draft), state_(draft.steps.size(), State::New) {}

  void search() {
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) visit(i);
  }

 private:
  enum class State : std::uint8_t { New, Open, Closed };

  void visit(std::size_t step) {
    if (state_[step] != State::New) return;
    state_[step] = State::Open;
    path_.push_back(step);
    for (const Need& need : draft_.steps[step].spec.needs) {
      std::size_t next = static_cast<std::size_t>(need.step);
      if (state_[next] == State::Open) {
        report(step, next);
      } else {
        visit(next);
      }
    }
    path_.pop_back();
    state_[step] = State::Closed;
  }

  void report(std::size_t step, std::size_t closes_at) {
    auto first = std::find(path_.begin(), path_.end(), closes_at);
    std::string circle;
    for (auto it = first; it != path_.end(); ++it) circle += draft_.steps[*it].spec.name + " -> ";
    circle += draft_.steps[closes_at].spec.name;
    Place at = draft_.steps[step].at;
    for (const NeedDraft& need : draft_.steps[step].needs)
      if (need.step == draft_.steps[closes_at].spec.name) at = need.at;
    draft_.report.error(at, fmt::format("circular dependency between steps: {}", circle));
  }

  Draft& draft_;
  std::vector<State> state_;
  std::vector<std::size_t> path_;
};

void check_uses(Draft& draft, StepDraft& step) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : draft.sweep.limits) names.push_back(name);
  for (const PlacedText& use : step.uses) {
    bool known = std::find(names.begin(), names.end(), use.text) != names.end();
    if (!known && !draft.report.incomplete())
      draft.report.error(use.at, fmt::format("{} uses `{}`, which is not in [limits]{}", step.where,
                                             use.text, did_you_mean(use.text, names)));
    if (std::find(step.spec.uses.begin(), step.spec.uses.end(), use.text) != step.spec.uses.end())
      draft.report.error(use.at, fmt::format("{} uses `{}` twice", step.where, use.text));
    step.spec.uses.push_back(use.text);
  }
}

}  // namespace

void check_references(Draft& draft) {
  for (StepDraft& step : draft.steps) {
    for (const NeedDraft& need : step.needs) resolve_need(draft, step, need);
    check_uses(draft, step);
  }
  CircleSearch(draft).search();
}

}  // namespace pergpu
