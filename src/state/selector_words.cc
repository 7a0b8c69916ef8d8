// The only word of its kind is given a second time with a / behind it, so that a shell neither ends
// the selector there nor hides that it may go on.  Of jobs and runs a bounded number is looked at,
// and of runs only their names: a user waits at a keyboard, and the loop for its next event.
#include "state/selector_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "job/state.h"
#include "plural.h"
#include "state/selector.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMostJobsLookedAt = 10'000;
constexpr std::size_t kMostRunsLookedAt = 100'000;

std::string meaning_of(const World& world, const Job& job) {
  return fmt::format("{}, {}", world.path_of(job), to_string(job.state));
}

class Words {
 public:
  Words(const World& world, std::string begin, std::size_t most)
      : world_(world), begin_(std::move(begin)), most_(most) {}

  std::vector<SelectorWord> take() {
    const std::size_t first = begin_.find('/');
    const std::size_t last = begin_.rfind('/');
    if (first == std::string::npos) {
      add_sweeps();
      add_live_jobs();
      add_numbers();
      return std::move(words_);
    }
    const Sweep* sweep = sweep_called(world_, begin_.substr(0, first));
    if (sweep == nullptr) return {};
    if (first == last) {
      add_runs(*sweep, begin_.substr(0, first + 1));
    } else {
      add_steps(*sweep, begin_.substr(first + 1, last - first - 1), begin_.substr(0, last + 1));
    }
    return std::move(words_);
  }

 private:
  bool is_full() const { return words_.size() >= most_; }
  void add(std::string word, std::string meaning) {
    if (!is_full() && word.starts_with(begin_))
      words_.push_back({.word = std::move(word), .meaning = std::move(meaning)});
  }
  /// The words since `first` are one: it may go on.
  void open_the_only_one(std::size_t first) {
    if (words_.size() == first + 1) add(words_.back().word + "/", "");
  }

  void add_sweeps() {
    std::map<std::string_view, std::int64_t> found;  // name -> jobs
    for (const auto& [id, sweep] : world_.sweeps()) {
      if (!world_.is_forgotten(id)) found[sweep.name] += sweep.jobs;
    }
    for (const auto& [id, archived] : world_.archived()) found[archived.name] += archived.jobs;
    if (!found.empty()) add("@", "the last sweep");
    if (!found.empty() && begin_ == "@") add("@/", "");
    const std::size_t first = words_.size();
    for (const auto& [name, jobs] : found) {
      const std::vector<SweepId> named = world_.sweeps_named(std::string(name));
      if (named.size() == 1) {
        add(std::string(name), counted(jobs, "job"));
        continue;
      }
      for (const SweepId id : named) {  // of one name: each as it can be named
        const Sweep* sweep = world_.sweep(id);
        const auto archived = world_.archived().find(id);
        const std::string root = sweep != nullptr                      ? sweep->root
                                 : archived != world_.archived().end() ? archived->second.root
                                                                       : std::string();
        add(fmt::format("{}@{}", name, id.value), "results in " + root);
      }
    }
    open_the_only_one(first);
  }

  void add_live_jobs() {
    if (!begin_.empty()) return;
    std::int64_t left = kMostJobsLookedAt;
    world_.live_jobs().for_each_while([&](JobId id) {
      if (is_full() || --left < 0) return false;
      add(std::to_string(id.value), meaning_of(world_, *world_.job(id)));
      return true;
    });
  }

  /// Jobs whose number begins so.
  void add_numbers() {
    std::int64_t begin = 0;
    const char* end = begin_.data() + begin_.size();
    const auto [at, code] = std::from_chars(begin_.data(), end, begin);
    if (code != std::errc() || at != end || begin <= 0) return;
    const std::int64_t last = world_.next_job_id().value - 1;
    std::int64_t left = kMostJobsLookedAt;
    for (std::int64_t from = begin, count = 1; from <= last; from *= 10, count *= 10) {
      for (std::int64_t id = from; id < from + count && id <= last; ++id) {
        if (is_full() || --left < 0) return;
        const Job* job = world_.job(JobId{id});
        if (job == nullptr || world_.is_forgotten(job->sweep)) continue;
        add(std::to_string(id), meaning_of(world_, *job));
      }
      if (from > last / 10) return;
    }
  }

  void add_runs(const Sweep& sweep, const std::string& head) {
    const bool has_once = std::any_of(sweep.steps.begin(), sweep.steps.end(),
                                      [](const Step& step) { return step.spec.once; });
    if (has_once) add(head + "_once", "steps that run once");
    const std::string_view begin = std::string_view(begin_).substr(head.size());
    const std::size_t looked_at = std::min(sweep.runs.size(), kMostRunsLookedAt);
    for (std::size_t i = 0; i < looked_at; ++i) {
      if (is_full()) return;
      const Run& run = sweep.runs[i];
      if (!run.listed || !run.folder().starts_with(begin)) continue;
      add(std::string(head).append(run.folder()), "");
    }
    open_the_only_one(0);
  }

  void add_steps(const Sweep& sweep, const std::string& run, const std::string& head) {
    const std::size_t place = place_of(sweep, run);
    for (const Step& step : sweep.steps) {
      if (step.spec.once != (run == "_once") || !step.listed) continue;
      const std::size_t at = step.spec.once ? 0 : place;
      const bool is_there = run == "*" || (at < step.current.size() && step.current[at]);
      const Job* job = is_there && run != "*" ? world_.job(step.current[at]) : nullptr;
      const std::string meaning =
          job == nullptr ? "" : fmt::format("job {}, {}", job->id.value, to_string(job->state));
      if (is_there) add(head + step.spec.name, meaning);
    }
  }

  /// By folder, whose name begins with its index, or by index; beyond the last: there is none.
  static std::size_t place_of(const Sweep& sweep, const std::string& run) {
    std::size_t index = 0;
    const char* end = run.data() + run.size();
    const auto [at, code] = std::from_chars(run.data(), end, index);
    if (code != std::errc() || index >= sweep.runs.size()) return sweep.runs.size();
    return at == end || sweep.runs[index].folder() == run ? index : sweep.runs.size();
  }

  const World& world_;
  const std::string begin_;
  const std::size_t most_;
  std::vector<SelectorWord> words_ = {};
};

}  // namespace

std::vector<SelectorWord> selector_words(const World& world, const std::string& begin,
                                         std::size_t most) {
  return Words(world, begin, most).take();
}

}  // namespace pergpu
