// One reading serves all attempts: its cost is one wake-up of the probe and two files a process.
#include "forecast/telemetry.h"

#include <algorithm>
#include <utility>

#include "job/usage_blob.h"

namespace pergpu {
namespace {

constexpr std::int64_t kYoungest = 200 * kMillisecond;  // attempts that are shorter cost nothing
constexpr std::int64_t kRefusalPause = 100 * kMillisecond;
constexpr std::int64_t kShortestSpan = 20 * kMillisecond;  // CPU time is counted in steps of 10 ms
constexpr std::size_t kMinutesARow = 10;
constexpr std::int64_t kGpuReadingLasts = 30 * kSecond;
constexpr std::int64_t kMemoryLookLasts = 5 * kSecond;  // there is one each second
// A pause is this many times what a reading takes of a core (1/700: 0.14 %), at most ten times the
// usual one.
constexpr double kCostPause = 700;
constexpr std::int64_t kMostStretch = 10;
/// This many attempts have rollups of full length; of more, all are shorter.
constexpr std::size_t kFullRollups = 64;

}  // namespace

Telemetry::~Telemetry() {
  if (timer_ != 0) parts_.timers->cancel(timer_);
}

std::optional<float> Telemetry::Counter::rate(std::int64_t value, std::int64_t now_ns) {
  const std::int64_t span = now_ns - read_at_ns;
  if (is_known && span < kShortestSpan) return std::nullopt;
  const std::int64_t more = std::max<std::int64_t>(value - highest, 0);
  highest = std::max(highest, value);
  read_at_ns = now_ns;
  if (!std::exchange(is_known, true)) return std::nullopt;
  return static_cast<float>(static_cast<double>(more) * 1e9 / static_cast<double>(span));
}

void Telemetry::begin(Subject subject) {
  if (parts_.pause_ns == 0 || live_.contains(subject.id)) return;
  const std::int64_t now = parts_.clock->now().boot_ns;
  const AttemptId id = subject.id;
  Live live{.subject = std::move(subject), .begun_ns = now};
  live.rollup = Rollup(live.subject.started_boot_ns);
  if (live.subject.is_new) {
    const Counter zero{.read_at_ns = live.subject.started_boot_ns, .is_known = true};
    live.cpu = live.read = live.written = zero;
  }
  live_.insert_or_assign(id, std::move(live));
  if (timer_ == 0 && !asking_) schedule(now + kYoungest);
}

std::optional<UsageSummary> Telemetry::end(AttemptId id) {
  auto node = live_.extract(id);
  if (node.empty()) return std::nullopt;
  Live& live = node.mapped();
  if (live.lasts) {
    live.unsaved.push_back(live.rollup.open_minute());
    save(live);
  }
  if (live.rollup.total().readings == 0) return std::nullopt;
  live_.insert(std::move(node));
  std::optional<UsageSummary> told = summary(id);
  live_.erase(id);
  return told;
}

std::optional<UsageSummary> Telemetry::summary(AttemptId id) const {
  const auto it = live_.find(id);
  if (it == live_.end() || it->second.rollup.total().readings == 0) return std::nullopt;
  const Live& live = it->second;
  UsageSummary summary = summary_of(live.rollup.total());
  if (summary[Measure::Read]) summary.read_bytes = static_cast<std::uint64_t>(live.read.highest);
  if (summary[Measure::Written]) {
    summary.written_bytes = static_cast<std::uint64_t>(live.written.highest);
  }
  return summary;
}

void Telemetry::save() {
  for (auto& [id, live] : live_) save(live);
}

void Telemetry::save(Live& live) {
  if (live.unsaved.empty()) return;
  const Instant now = parts_.clock->now();
  const std::int64_t from = live.unsaved.front().from_ns;
  parts_.record(row::Usage{.job = live.subject.id.job,
                           .attempt = live.subject.id.number,
                           .at = {.wall_ns = now.wall_ns - (now.boot_ns - from), .boot_ns = from},
                           .minutes = minutes_to_bytes(live.unsaved, from)});
  live.unsaved.clear();
}

const Rollup* Telemetry::of(AttemptId id) const {
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : &it->second.rollup;
}

const CpuShare* Telemetry::share(AttemptId id) const {
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : &it->second.share;
}

const GpuUsage* Telemetry::gpu(const std::string& uuid) const {
  const auto it = gpus_.find(uuid);
  if (it == gpus_.end()) return nullptr;
  const std::int64_t age = parts_.clock->now().boot_ns - it->second.boot_ns;
  return age > kGpuReadingLasts ? nullptr : &it->second.usage;
}

std::int64_t Telemetry::gpu_read_ns(const std::string& uuid) const {
  return gpu(uuid) == nullptr ? 0 : gpus_.at(uuid).boot_ns;
}

void Telemetry::share_gpu(AttemptId id) {
  const auto it = live_.find(id);
  if (it != live_.end()) it->second.subject.shares_gpu = true;
}

void Telemetry::saw_gpu_memory(AttemptId id, std::uint64_t bytes) {
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  it->second.gpu_memory = static_cast<float>(bytes);
  it->second.gpu_memory_ns = parts_.clock->now().boot_ns;
}

void Telemetry::schedule(std::int64_t boot_ns) {
  timer_ = parts_.timers->at(boot_ns, [this] {
    timer_ = 0;
    ask();
  });
}

std::int64_t Telemetry::pause_ns() const {
  const auto wanted = static_cast<std::int64_t>(kCostPause * cost_ns_);
  return std::clamp(wanted, parts_.pause_ns, kMostStretch * parts_.pause_ns);
}

void Telemetry::ask() {
  if (live_.empty()) return;
  const std::int64_t now = parts_.clock->now().boot_ns;
  UsageQuestion question;
  std::vector<AttemptId> asked;
  for (const auto& [id, live] : live_) {
    if (now - live.begun_ns < kYoungest) continue;
    asked.push_back(id);
    question.trees.push_back(live.subject.root);
    for (const std::string& uuid : live.subject.gpus) {
      const bool is_asked = std::ranges::find(question.gpus, uuid) != question.gpus.end();
      if (!is_asked) question.gpus.push_back(uuid);
    }
  }
  if (asked.empty()) return schedule(now + pause_ns());
  const bool is_asked = parts_.inventory->read_usage(
      question, [this, asked = std::move(asked), now](const UsageAnswer& answer) {
        asking_ = false;
        if (answer.boot_ns != 0) take(asked, answer);
        if (!live_.empty()) schedule(std::max(now + pause_ns(), parts_.clock->now().boot_ns));
      });
  if (!is_asked) {
    refusal_pause_ns_ =
        std::clamp(2 * refusal_pause_ns_, kRefusalPause, std::max(kRefusalPause, pause_ns()));
    return schedule(now + refusal_pause_ns_);
  }
  refusal_pause_ns_ = 0;
  asking_ = true;
}

void Telemetry::take(const std::vector<AttemptId>& asked, const UsageAnswer& answer) {
  cost_ns_ += (static_cast<double>(answer.cost_ns) - cost_ns_) / 16;
  for (const GpuUsage& usage : answer.gpus) gpus_[usage.uuid] = {usage, answer.boot_ns};
  std::erase_if(gpus_, [&](const auto& entry) {
    return answer.boot_ns - entry.second.boot_ns > kGpuReadingLasts;
  });
  for (std::size_t i = 0; i < std::min(asked.size(), answer.trees.size()); ++i) {
    const auto it = live_.find(asked[i]);
    if (it == live_.end() || !answer.trees[i]) continue;
    Live& live = it->second;
    const os::TreeUsage& tree = *answer.trees[i];
    UsageReading reading{.boot_ns = answer.boot_ns};
    const std::int64_t before = live.cpu.read_at_ns;
    if (const std::optional<float> ns = live.cpu.rate(tree.cpu_ns, answer.boot_ns)) {
      reading[Measure::Cores] = *ns / 1e9f;
      live.cores = *reading[Measure::Cores];
      live.span_s = static_cast<double>(answer.boot_ns - before) / 1e9;
    }
    if (tree.read_bytes && tree.written_bytes) {
      reading[Measure::Read] =
          live.read.rate(static_cast<std::int64_t>(*tree.read_bytes), answer.boot_ns);
      reading[Measure::Written] =
          live.written.rate(static_cast<std::int64_t>(*tree.written_bytes), answer.boot_ns);
    }
    reading[Measure::Resident] = static_cast<float>(tree.resident_bytes);
    if (tree.proportional_bytes) {
      reading[Measure::Proportional] = static_cast<float>(*tree.proportional_bytes);
    }
    reading[Measure::Processes] = static_cast<float>(tree.processes);
    take_gpus(live, reading);
    add(live, reading);
  }
  share_cores(asked);
  bound_memory();
}

void Telemetry::share_cores(const std::vector<AttemptId>& asked) {
  Crowd crowd{.machine_cores = static_cast<double>(parts_.cores)};
  for (const AttemptId& id : asked) {
    const auto it = live_.find(id);
    if (it == live_.end() || !it->second.cores) continue;
    crowd.used_cores += *it->second.cores;
    ++crowd.jobs;
  }
  for (const AttemptId& id : asked) {
    const auto it = live_.find(id);
    if (it == live_.end()) continue;
    Live& live = it->second;
    if (const auto cores = std::exchange(live.cores, std::nullopt)) {
      live.share.add(live.span_s, *cores, crowd.slows(*cores));
    }
  }
}

/// A sum is known only if every GPU reports its part, and all of it is the attempt's; of a GPU that
/// it shares, the memory of its own processes.
void Telemetry::take_gpus(const Live& live, UsageReading& reading) const {
  Stat busy, memory, power, temperature, clock;
  for (const std::string& uuid : live.subject.gpus) {
    const auto seen = gpus_.find(uuid);
    if (seen == gpus_.end() || seen->second.boot_ns != reading.boot_ns) continue;
    const GpuUsage& gpu = seen->second.usage;
    if (gpu.busy_percent) busy.add(static_cast<float>(*gpu.busy_percent));
    if (gpu.used_bytes) memory.add(static_cast<float>(*gpu.used_bytes));
    if (gpu.power_mw) power.add(static_cast<float>(*gpu.power_mw) / 1000);
    if (gpu.temperature_c) temperature.add(static_cast<float>(*gpu.temperature_c));
    if (gpu.clock_mhz) clock.add(static_cast<float>(*gpu.clock_mhz));
    reading.throttle |= gpu.throttle.value_or(0);
  }
  const auto all_told = [&](const Stat& stat) {
    return stat.count == live.subject.gpus.size() && !live.subject.shares_gpu;
  };
  if (busy.count > 0) reading[Measure::GpuBusy] = static_cast<float>(*busy.mean());
  if (memory.count > 0 && all_told(memory)) {
    reading[Measure::GpuMemory] = static_cast<float>(memory.sum);
  }
  const bool was_seen =
      live.gpu_memory > 0 && reading.boot_ns - live.gpu_memory_ns <= kMemoryLookLasts;
  if (live.subject.shares_gpu && was_seen) reading[Measure::GpuMemory] = live.gpu_memory;
  if (power.count > 0 && all_told(power)) {
    reading[Measure::GpuPower] = static_cast<float>(power.sum);
  }
  if (temperature.count > 0) reading[Measure::GpuTemperature] = temperature.most;
  if (clock.count > 0) reading[Measure::GpuClock] = static_cast<float>(*clock.mean());
}

void Telemetry::add(Live& live, const UsageReading& reading) {
  const std::optional<UsageBucket> minute = live.rollup.add(reading);
  if (!minute) return;
  live.lasts = true;
  live.unsaved.push_back(*minute);
  if (live.unsaved.size() >= kMinutesARow) save(live);
}

void Telemetry::bound_memory() {
  const std::size_t count = std::max(live_.size(), kFullRollups);
  const Rollup::Bounds full;
  const auto share = [&](std::size_t most) {
    return std::max<std::size_t>(most * kFullRollups / count, 2);
  };
  const Rollup::Bounds bounds{
      .seconds = share(full.seconds), .tens = share(full.tens), .whole = share(full.whole)};
  for (auto& [id, live] : live_) live.rollup.bound(bounds);
}

}  // namespace pergpu
