// Replays job traces through the scheduler of pergpu (job/schedule/schedule.h), and through others
// for comparison: events in order, no processes, time jumps.  bench/replay is the command.
//
//   replay_tasks tasks GPUS POLICY FILE    a task a line: arrival and duration in seconds, GPUs,
//                                          thousandths of one (0: whole GPUs)
//   replay_tasks queue GPUS JOBS FILE      so many jobs in the queue; a duration a line
//
// Policies: `pergpu` knows how long each task takes, `pergpu-blind` does not; `first-come` starts
// in order and waits where one does not fit; `best-fit` passes over those, onto the GPU of which
// least is left; `shortest` does so in the order of durations.  Prints one object of JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "job/schedule/schedule.h"

namespace {

using namespace pergpu;

constexpr std::int64_t kSecond = 1'000'000'000;

struct Task {
  std::int64_t arrival_ns = 0;
  std::int64_t duration_ns = 0;
  int gpus = 1;
  int share = 0;  // thousandths; 0: whole GPUs
  double taken() const { return share > 0 ? share / 1000.0 : gpus; }
};

[[noreturn]] void fail(const std::string& words) {
  std::cerr << "replay_tasks: " << words << '\n';
  std::exit(2);
}

std::int64_t ns_of(double seconds) {
  return static_cast<std::int64_t>(seconds * static_cast<double>(kSecond));
}

std::vector<Task> read_tasks(const char* path) {
  std::ifstream file(path);
  if (!file) fail(fmt::format("{}: cannot be read", path));
  std::vector<Task> tasks;
  double arrival = 0;
  double duration = 0;
  Task task;
  while (file >> arrival >> duration >> task.gpus >> task.share) {
    task.arrival_ns = ns_of(arrival);
    task.duration_ns = ns_of(duration);
    if (task.gpus < 1 || task.share < 0 || task.share >= kWholeGpu || duration < 0) {
      fail(fmt::format("{}: task {} makes no sense", path, tasks.size() + 1));
    }
    if (task.share > 0 && task.gpus != 1) fail("a share is of one GPU");
    tasks.push_back(task);
  }
  if (!file.eof()) fail(fmt::format("{}: not four numbers after task {}", path, tasks.size()));
  return tasks;
}

/// Who starts what, when and where; told of arrivals and ends.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual void arrive(std::size_t task) = 0;
  virtual void end(std::size_t task) = 0;
  /// What starts now, each on these GPUs.
  virtual std::vector<std::pair<std::size_t, std::vector<std::size_t>>> start(std::int64_t now) = 0;
};

class Pergpu final : public Policy {
 public:
  Pergpu(const std::vector<Task>& tasks, int gpus, bool is_blind)
      : tasks_(tasks), is_blind_(is_blind), choices_(tasks.size()) {
    for (int i = 0; i < gpus; ++i) {
      place_[fmt::format("GPU-{}", i)] = static_cast<std::size_t>(i);
      capacity_.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = i},
                                .uuid = fmt::format("GPU-{}", i),
                                .name = "GPU",
                                .memory_bytes = 80ull << 30});
    }
  }
  void arrive(std::size_t task) override { queue_.insert(entry(task)); }
  void end(std::size_t task) override {
    const Choice& choice = choices_[task];
    capacity_.vacate(choice.job.step, *queue_.demand(choice.job.step), choice.lane, choice.gpus,
                     true);
  }
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> start(std::int64_t now) override {
    std::vector<std::pair<std::size_t, std::vector<std::size_t>>> started;
    capacity_.now_ns = now;
    while (std::optional<Choice> choice = choose(queue_, capacity_)) {
      queue_.take(choice->job, choice->overtaken);
      capacity_.occupy(choice->job.step, *queue_.demand(choice->job.step), choice->lane,
                       choice->gpus, "runs", expected_end_ns(now, choice->job.expected_ns));
      const auto task = static_cast<std::size_t>(choice->job.id.value - 1);
      std::vector<std::size_t> gpus;
      for (const std::string& uuid : choice->gpus) gpus.push_back(place_.at(uuid));
      choices_[task] = std::move(*choice);
      started.emplace_back(task, std::move(gpus));
    }
    return started;
  }

 private:
  /// A step for each shape, as a sweep has it.
  StepKey step_of(const Task& task) {
    const auto [at, is_new] = steps_.try_emplace({task.gpus, task.share});
    if (is_new) {
      at->second = {.sweep = {1}, .step = static_cast<std::int16_t>(steps_.size())};
      queue_.declare(
          at->second,
          {.step_name = "step", .pool = LaneId::Pool::Gpu, .gpus = task.gpus, .share = task.share});
    }
    return at->second;
  }
  ReadyJob entry(std::size_t task) {
    return {.id = {static_cast<std::int64_t>(task) + 1},
            .step = step_of(tasks_[task]),
            .run = static_cast<std::int32_t>(task),
            .expected_ns = is_blind_ ? 0 : std::max<std::int64_t>(tasks_[task].duration_ns, 1)};
  }

  const std::vector<Task>& tasks_;
  bool is_blind_;
  ReadyQueue queue_;
  Capacity capacity_;
  std::vector<Choice> choices_;
  std::map<std::string, std::size_t> place_;
  std::map<std::pair<int, int>, StepKey> steps_;
};

class Simple final : public Policy {
 public:
  enum class Order { Strict, InOrder, Shortest };
  Simple(const std::vector<Task>& tasks, int gpus, Order order)
      : tasks_(tasks),
        order_(order),
        left_(static_cast<std::size_t>(gpus), kWholeGpu),
        has_(tasks.size()) {}
  void arrive(std::size_t task) override {
    waiting_.emplace(order_ == Order::Shortest ? tasks_[task].duration_ns : 0, task);
  }
  void end(std::size_t task) override {
    for (const std::size_t gpu : has_[task]) left_[gpu] += share_of(task);
  }
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> start(std::int64_t) override {
    std::vector<std::pair<std::size_t, std::vector<std::size_t>>> started;
    std::set<std::pair<int, int>> hopeless;  // shapes
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Task& task = tasks_[it->second];
      std::vector<std::size_t> gpus;
      if (!hopeless.contains({task.gpus, task.share})) gpus = find(it->second);
      if (gpus.empty()) {
        hopeless.insert({task.gpus, task.share});
        if (order_ == Order::Strict) break;
        ++it;
        continue;
      }
      for (const std::size_t gpu : gpus) left_[gpu] -= share_of(it->second);
      has_[it->second] = gpus;
      started.emplace_back(it->second, std::move(gpus));
      it = waiting_.erase(it);
    }
    return started;
  }

 private:
  int share_of(std::size_t task) const {
    return tasks_[task].share > 0 ? tasks_[task].share : kWholeGpu;
  }
  /// Empty: there is no room.
  std::vector<std::size_t> find(std::size_t task) const {
    std::vector<std::size_t> fits;
    for (std::size_t gpu = 0; gpu < left_.size(); ++gpu) {
      if (left_[gpu] >= share_of(task)) fits.push_back(gpu);
    }
    const auto asked = static_cast<std::size_t>(tasks_[task].gpus);
    if (fits.size() < asked) return {};
    const auto middle = fits.begin() + static_cast<std::ptrdiff_t>(asked);
    std::partial_sort(fits.begin(), middle, fits.end(),
                      [&](std::size_t a, std::size_t b) { return left_[a] < left_[b]; });
    fits.resize(asked);
    return fits;
  }

  const std::vector<Task>& tasks_;
  Order order_;
  std::vector<int> left_;  // thousandths of each GPU
  std::vector<std::vector<std::size_t>> has_;
  std::set<std::pair<std::int64_t, std::size_t>> waiting_;
};

std::unique_ptr<Policy> policy_of(std::string_view name, const std::vector<Task>& tasks, int gpus) {
  if (name == "pergpu") return std::make_unique<Pergpu>(tasks, gpus, false);
  if (name == "pergpu-blind") return std::make_unique<Pergpu>(tasks, gpus, true);
  if (name == "first-come") return std::make_unique<Simple>(tasks, gpus, Simple::Order::Strict);
  if (name == "best-fit") return std::make_unique<Simple>(tasks, gpus, Simple::Order::InOrder);
  if (name == "shortest") return std::make_unique<Simple>(tasks, gpus, Simple::Order::Shortest);
  fail(fmt::format("no policy is called {}", name));
}

/// Nobody has more of a GPU than there is.
class Referee {
 public:
  Referee(const std::vector<Task>& tasks, int gpus)
      : tasks_(tasks), left_(static_cast<std::size_t>(gpus), kWholeGpu) {}
  void start(std::size_t task, const std::vector<std::size_t>& gpus) {
    const Task& of = tasks_[task];
    if (gpus.size() != static_cast<std::size_t>(of.gpus)) ++violations_;
    for (const std::size_t gpu : gpus) {
      left_[gpu] -= of.share > 0 ? of.share : kWholeGpu;
      if (left_[gpu] < 0) ++violations_;
    }
  }
  void end(std::size_t task, const std::vector<std::size_t>& gpus) {
    const Task& of = tasks_[task];
    for (const std::size_t gpu : gpus) left_[gpu] += of.share > 0 ? of.share : kWholeGpu;
  }
  int violations() const { return violations_; }

 private:
  const std::vector<Task>& tasks_;
  std::vector<int> left_;
  int violations_ = 0;
};

/// No order of starts can end before: what arrives from some moment on takes so long on all GPUs,
/// and each task its own time.
std::int64_t lower_bound_ns(const std::vector<Task>& tasks, int gpus) {
  std::int64_t bound = 0;
  double work = 0;
  for (std::size_t i = tasks.size(); i-- > 0;) {  // in the order of arrivals, the last first
    work += static_cast<double>(tasks[i].duration_ns) * tasks[i].taken();
    bound = std::max({bound, tasks[i].arrival_ns + tasks[i].duration_ns,
                      tasks[i].arrival_ns + static_cast<std::int64_t>(work / gpus)});
  }
  return bound;
}

double at(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

void replay(int gpus, std::string_view name, std::vector<Task> tasks) {
  std::ranges::stable_sort(tasks, {}, &Task::arrival_ns);
  for (const Task& task : tasks) {
    if (task.gpus > gpus) fail(fmt::format("a task wants {} GPUs of {}", task.gpus, gpus));
  }
  const std::unique_ptr<Policy> policy = policy_of(name, tasks, gpus);
  Referee referee(tasks, gpus);
  using End = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  std::vector<std::vector<std::size_t>> has(tasks.size());
  std::vector<double> waits;
  std::vector<double> decisions_us;
  double work = 0;
  std::int64_t last_ns = 0;
  std::size_t arrived = 0;
  std::size_t ended = 0;
  const auto begun = std::chrono::steady_clock::now();
  while (arrived < tasks.size() || !ends.empty()) {
    std::int64_t now = ends.empty() ? tasks[arrived].arrival_ns : ends.top().first;
    if (arrived < tasks.size()) now = std::min(now, tasks[arrived].arrival_ns);
    const auto before = std::chrono::steady_clock::now();
    std::size_t events = 0;
    for (; !ends.empty() && ends.top().first == now; ++events) {
      const std::size_t task = ends.top().second;
      ends.pop();
      policy->end(task);
      referee.end(task, has[task]);
      ++ended;
    }
    for (; arrived < tasks.size() && tasks[arrived].arrival_ns == now; ++events) {
      policy->arrive(arrived++);
    }
    for (auto& [task, its] : policy->start(now)) {
      referee.start(task, its);
      has[task] = std::move(its);
      ends.emplace(now + tasks[task].duration_ns, task);
      waits.push_back(static_cast<double>(now - tasks[task].arrival_ns) / 1e9);
      work += static_cast<double>(tasks[task].duration_ns) * tasks[task].taken();
      last_ns = std::max(last_ns, now + tasks[task].duration_ns);
    }
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - before;
    decisions_us.push_back(took.count() / static_cast<double>(events));
  }
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begun;
  std::ranges::sort(waits);
  std::ranges::sort(decisions_us);
  double sum = 0;
  for (const double wait : waits) sum += wait;
  const std::int64_t bound = lower_bound_ns(tasks, gpus);
  const auto span = static_cast<double>(last_ns - tasks.front().arrival_ns);
  std::cout << nlohmann::json{{"gpus", gpus},
                              {"policy", name},
                              {"tasks", tasks.size()},
                              {"ended", ended},
                              {"violations", referee.violations()},
                              {"utilisation", work / (span * gpus)},
                              {"mean_wait_s", sum / static_cast<double>(waits.size())},
                              {"p99_wait_s", at(waits, 0.99)},
                              {"makespan_s", static_cast<double>(last_ns) / 1e9},
                              {"of_bound",
                               static_cast<double>(last_ns) / static_cast<double>(bound)},
                              {"event_us_median", at(decisions_us, 0.5)},
                              {"event_us_p99", at(decisions_us, 0.99)},
                              {"computing_s", all.count()}}
                   .dump()
            << '\n';
}

/// One job ends, another starts, over and over, beside a long queue.
void long_queue(int gpus, std::size_t jobs, const char* path) {
  std::ifstream file(path);
  std::vector<double> durations;
  for (double seconds = 0; file >> seconds;) durations.push_back(seconds);
  if (durations.empty()) fail(fmt::format("{}: has no durations", path));
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < jobs; ++i) {
    const int kind = static_cast<int>(i % 8);
    tasks.push_back({.duration_ns = ns_of(durations[i % durations.size()]),
                     .gpus = kind == 7 && gpus > 1 ? 2 : 1,
                     .share = kind < 3 ? 250 * (kind + 1) : 0});
  }
  Pergpu policy(tasks, gpus, false);
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < jobs; ++i) policy.arrive(i);
  const std::chrono::duration<double> inserted = std::chrono::steady_clock::now() - begun;
  std::vector<std::size_t> live;
  for (auto& [task, its] : policy.start(0)) live.push_back(task);
  std::vector<double> decisions_us;
  const std::size_t turns = std::min<std::size_t>(jobs / 2, 20'000);
  for (std::size_t turn = 0; turn < turns && !live.empty(); ++turn) {
    std::swap(live[turn % live.size()], live.back());
    const std::size_t task = live.back();
    live.pop_back();
    const auto before = std::chrono::steady_clock::now();
    policy.end(task);
    for (auto& [next, its] : policy.start(static_cast<std::int64_t>(turn + 1) * kSecond)) {
      live.push_back(next);
    }
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - before;
    decisions_us.push_back(took.count());
  }
  std::ranges::sort(decisions_us);
  std::cout << nlohmann::json{{"gpus", gpus},
                              {"jobs", jobs},
                              {"insert_us", 1e6 * inserted.count() / static_cast<double>(jobs)},
                              {"event_us_median", at(decisions_us, 0.5)},
                              {"event_us_p99", at(decisions_us, 0.99)}}
                   .dump()
            << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() != 4) fail("tasks GPUS POLICY FILE, or queue GPUS JOBS FILE");
  const int gpus = std::atoi(argv[2]);
  if (gpus < 1) fail("GPUS is a number from 1");
  if (words[0] == "tasks") {
    replay(gpus, words[2], read_tasks(argv[4]));
  } else if (words[0] == "queue") {
    long_queue(gpus, static_cast<std::size_t>(std::atoll(argv[3])), argv[4]);
  } else {
    fail("tasks or queue");
  }
}
