// One request is under way at most.  Looks asked for meanwhile wait for the next request: the one
// under way may have read a device before the event that made them ask.
//
// While it is to stay there is always a probe, for only one that is there learns of errors (Xids):
// one that rested is told at once, one that is gone is followed by another.  No caller waits for
// that one's first look; errors that it shows are passed on with the next look that has a caller.
//
// A reading of usage is asked for only while no look is under way, and a look does not wait for it:
// its request follows behind the other's.  Where a reading fails nothing else changes, but that a
// probe which hung in one is treated as any that hung.
#include "gpu/probe_inventory.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gpu/probe_wire.h"
#include "os/ipc/socket.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/spawn.h"
#include "os/test_hooks.h"

namespace pergpu::gpu {

namespace {

using std::chrono::milliseconds;
using Done = std::function<void(const GpuLook&)>;
using UsageDone = std::function<void(const UsageAnswer&)>;

/// After a probe that ended while it read usage: it is not started again for that alone.
constexpr std::int64_t kUsagePauseNs = 10'000'000'000;

struct Probe {
  pid_t pid = 0;
  os::UniqueFd pidfd = {};
  std::unique_ptr<os::LineStream> stream = nullptr;
  bool is_warm = false;  // has answered once
  bool stays = false;    // was told to
  ProbeProgress at = {};
};
/// Killed and not yet gone.
struct Abandoned {
  os::UniqueFd pidfd = {};
  bool hung = false;
  int gpu = -1;  // where it hung; -1: not at a GPU
};

GpuLook incomplete(std::string why) {
  GpuLook look;
  look.why = std::move(why);
  return look;
}

std::string seconds_in_words(milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000.0);
}

std::vector<std::string> probe_argv() {
  const char* chosen = os::test_hook::kProbe.value();
  if (chosen != nullptr && *chosen != '\0') return {chosen, "probe"};
  const Result<std::string> own = os::own_executable();
  return {own ? *own : "/proc/self/exe", "probe"};
}

}  // namespace

void carry_identities(GpuLook& look, const GpuLook& previous) {
  if (!look.complete || look.no_driver) return;
  // Places whose GPU could not be asked who it is; and, by PCI address, whether those that could
  // are cut.
  std::map<int, GpuReading> nameless;
  std::map<std::string, bool> cut;
  for (const GpuReading& reading : look.gpus) {
    if (reading.uuid.empty()) {
      nameless[reading.index] = reading;
    } else {
      cut[reading.pci] = reading.instance >= 0;
    }
  }
  for (const GpuReading& old : previous.gpus) {
    if (old.uuid.empty() ||
        std::ranges::find(look.gpus, old.uuid, &GpuReading::uuid) != look.gpus.end()) {
      continue;
    }
    // The GPU was cut into other instances, or into none: nothing is lost.
    const auto now = cut.find(old.pci);
    if (now != cut.end() && (now->second || old.instance >= 0)) continue;
    GpuReading kept = old;
    kept.used_bytes = 0;
    kept.processes.clear();
    kept.device_holders.clear();
    if (const auto place = nameless.find(old.index); place != nameless.end()) {
      kept.health = place->second.health;
      kept.note = place->second.note;
      const auto nobody = std::ranges::find_if(look.gpus, [&](const GpuReading& reading) {
        return reading.uuid.empty() && reading.index == old.index;
      });
      if (nobody != look.gpus.end()) {
        *nobody = std::move(kept);
      } else {  // another of its instances took the place
        look.gpus.push_back(std::move(kept));
      }
      continue;
    }
    kept.health = GpuHealth::Lost;
    kept.note = "the driver no longer lists it";
    const auto is_taken = [&](const GpuReading& reading) {
      return reading.index == kept.index && reading.instance == kept.instance;
    };
    while (std::ranges::any_of(look.gpus, is_taken)) ++kept.index;
    look.gpus.push_back(std::move(kept));
  }
}

struct ProbeInventory::Impl {
  Impl(os::Loop& loop_in, os::Clock& clock_in, ProbeOptions options_in)
      : loop(loop_in), clock(clock_in), options(std::move(options_in)) {
    if (options.argv.empty()) options.argv = probe_argv();
    crash_pause = options.crash_pause;
  }
  ~Impl();

  void ask(Done done);
  void begin();
  void request();
  void stay(bool wanted);
  bool read_usage(const UsageQuestion& question, const UsageDone& done);
  void finish_usage(const UsageAnswer& answer);
  void give_up_usage();
  void end_both(const std::string& why);
  void keep_one(milliseconds delay);
  Result<void> start();
  bool is_stuck() const;
  std::optional<std::string> reason_not_to_start();
  void on_line(std::string_view line);
  void on_close(const Error& why);
  void on_deadline();
  void abandon(bool hung, int gpu = -1);
  void crashed(const std::string& why);
  void finish(GpuLook look);
  os::Loop::TimerId after(milliseconds delay, std::function<void()> callback);

  os::Loop& loop;
  os::Clock& clock;
  ProbeOptions options;
  std::optional<Probe> probe = std::nullopt;
  std::vector<Abandoned> abandoned = {};
  std::vector<Done> current = {};  // answered by the request under way; null: without a caller
  std::vector<Done> waiting = {};  // answered by the one after
  std::int64_t request_id = 0;
  bool asked_twice = false;  // the request under way was already lost with an earlier probe
  std::optional<os::Loop::TimerId> timer = std::nullopt;
  std::optional<os::Loop::TimerId> keep_timer = std::nullopt;
  std::int64_t start_not_before_ns = 0;
  std::string pause_why = {};
  milliseconds crash_pause{0};
  std::set<int> skip = {};
  std::int64_t skip_until_ns = 0;
  GpuLook last = {};  // the newest complete one
  bool staying = false;
  std::vector<GpuXid> xids = {};  // seen, and not handed over yet
  UsageDone usage_done = {};      // of the reading under way; null: there is none
  std::int64_t usage_id = 0;
  std::optional<os::Loop::TimerId> usage_timer = std::nullopt;
  std::int64_t usage_not_before_ns = 0;
};

ProbeInventory::Impl::~Impl() {
  if (timer) loop.cancel(*timer);
  if (keep_timer) loop.cancel(*keep_timer);
  if (usage_timer) loop.cancel(*usage_timer);
  if (probe) {
    probe->stream.reset();
    (void)os::send_signal(probe->pidfd, SIGKILL);
    os::reap(probe->pid);
  }
  for (const Abandoned& gone : abandoned) loop.unwatch(gone.pidfd.get());
}

os::Loop::TimerId ProbeInventory::Impl::after(milliseconds delay, std::function<void()> callback) {
  const std::int64_t delay_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(delay).count();
  return loop.at(clock.now().boot_ns + delay_ns, std::move(callback));
}

void ProbeInventory::Impl::ask(Done done) {
  const bool idle = current.empty();
  (idle ? current : waiting).push_back(std::move(done));
  if (idle) begin();
}

// REQUIRES: `current` is not empty and no request is under way.
void ProbeInventory::Impl::begin() {
  asked_twice = false;
  if (!probe) {
    std::optional<std::string> why = reason_not_to_start();
    if (!why) {
      if (Result<void> started = start(); !started) why = started.error().message;
    }
    if (why) {
      // Not at once: a caller of look() is not answered before it returns.
      timer = after(milliseconds{0}, [this, text = *why] {
        timer.reset();
        finish(incomplete(text));
      });
      return;
    }
  }
  request();
}

void ProbeInventory::Impl::request() {
  if (!skip.empty() && abandoned.empty() && clock.now().boot_ns >= skip_until_ns) skip.clear();
  ++request_id;
  if (!usage_done) probe->at = {};
  probe->stays = staying;
  probe->stream->send(to_line(ProbeRequest{.id = request_id, .skip = skip, .stay = staying}));
  timer = after(probe->is_warm ? options.deadline : options.first_deadline, [this] {
    timer.reset();
    on_deadline();
  });
}

void ProbeInventory::Impl::stay(bool wanted) {
  staying = wanted;
  if (!probe) return keep_one(milliseconds{0});
  if (probe->stays == wanted) return;
  probe->stays = wanted;
  probe->stream->send(to_line(ProbeRequest{.id = request_id, .stay = wanted, .rest = true}));
}

bool ProbeInventory::Impl::read_usage(const UsageQuestion& question, const UsageDone& done) {
  if (usage_done || !current.empty() || clock.now().boot_ns < usage_not_before_ns) return false;
  // One that is to stay begins with a look, which makes it learn of errors.
  if (!probe && (staying || reason_not_to_start() || !start())) return false;
  usage_done = done;
  usage_id = ++request_id;
  probe->at = {};
  probe->stays = staying;
  probe->stream->send(
      to_line(ProbeRequest{.id = usage_id, .skip = skip, .stay = staying, .usage = question}));
  usage_timer = after(probe->is_warm ? options.deadline : options.first_deadline, [this] {
    usage_timer.reset();
    on_deadline();
  });
  return true;
}

/// `answer` without a time: it was not read.
void ProbeInventory::Impl::finish_usage(const UsageAnswer& answer) {
  if (usage_timer) loop.cancel(*usage_timer);
  usage_timer.reset();
  if (const UsageDone done = std::exchange(usage_done, nullptr)) done(answer);
}

// Not at once: the caller that made it stay often asks for a look in the same turn.  Behind a probe
// that is stuck none is started; its end calls this again.
void ProbeInventory::Impl::keep_one(milliseconds delay) {
  if (!staying || probe || keep_timer) return;
  const milliseconds pause{(start_not_before_ns - clock.now().boot_ns) / 1'000'000 + 1};
  keep_timer = after(std::max(delay, pause), [this] {
    keep_timer.reset();
    if (staying && !probe && current.empty() && !is_stuck()) ask({});
  });
}

bool ProbeInventory::Impl::is_stuck() const {
  return std::ranges::any_of(
      abandoned, [&](const Abandoned& gone) { return gone.hung && skip.count(gone.gpu) == 0; });
}

std::optional<std::string> ProbeInventory::Impl::reason_not_to_start() {
  if (is_stuck())
    return pause_why + "; that probe is still stuck in the kernel, so no new one starts";
  const std::int64_t wait_ns = start_not_before_ns - clock.now().boot_ns;
  if (wait_ns <= 0) return std::nullopt;
  return fmt::format("{}; next try in {}", pause_why,
                     seconds_in_words(milliseconds{wait_ns / 1'000'000 + 1}));
}

Result<void> ProbeInventory::Impl::start() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return os_error("socket pair for the GPU probe");
  }
  os::UniqueFd ours(ends[0]);
  const os::UniqueFd theirs(ends[1]);
  os::SpawnPlan plan;
  plan.argv = options.argv;
  plan.env = os::own_environment();
  plan.cwd = "/";
  plan.stdin_fd = theirs.get();
  plan.stdout_fd = theirs.get();
  plan.new_session = true;
  plan.parent_death_signal = SIGKILL;
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    return os_error(fmt::format("start the GPU probe: {} {}", failure->phase, failure->object),
                    failure->os_errno);
  }
  os::Spawned& spawned = *std::get_if<os::Spawned>(&result);
  probe.emplace();
  probe->pid = spawned.pid;
  probe->pidfd = std::move(spawned.pidfd);
  Result<std::unique_ptr<os::LineStream>> stream =
      os::LineStream::open(loop, std::move(ours),
                           {.on_line = [this](std::string_view line) { on_line(line); },
                            .on_close = [this](const Error& why) { on_close(why); }},
                           kMaxReplyBytes);
  if (!stream) {
    abandon(false);
    return std::move(stream).error();
  }
  probe->stream = std::move(*stream);
  return {};
}

void ProbeInventory::Impl::on_line(std::string_view line) {
  Result<ProbeAnswer> answer = parse_answer(line);
  if (!answer) return crashed(answer.error().message);
  if (auto* progress = std::get_if<ProbeProgress>(&*answer)) {
    xids.insert(xids.end(), progress->xids.begin(), progress->xids.end());
    if (progress->id == request_id || progress->id == usage_id) probe->at = std::move(*progress);
    return;
  }
  if (const auto* told = std::get_if<ProbeUsage>(&*answer)) {
    if (told->id == usage_id && usage_done) finish_usage(told->usage);
    return;
  }
  ProbeReply& reply = *std::get_if<ProbeReply>(&*answer);
  if (reply.id != request_id || current.empty()) return;
  probe->is_warm = true;
  crash_pause = options.crash_pause;
  finish(std::move(reply.look));
}

void ProbeInventory::Impl::on_close(const Error& why) {
  if (!current.empty()) return crashed("the GPU probe ended: " + why.message);
  abandon(false);  // it left because nothing was asked for a while, or was killed
  keep_one(options.crash_pause);
  give_up_usage();
}

void ProbeInventory::Impl::give_up_usage() {
  if (!usage_done) return;
  usage_not_before_ns = clock.now().boot_ns + kUsagePauseNs;
  finish_usage({});
}

void ProbeInventory::Impl::crashed(const std::string& why) {
  // One that has worked may have left just when it was asked: ask another one, once.
  const bool again = !current.empty() && probe->is_warm && !asked_twice;
  abandon(false);
  if (timer) loop.cancel(*timer);
  timer.reset();
  if (again && start()) {
    asked_twice = true;
    request();
    give_up_usage();
    return;
  }
  pause_why = why;
  start_not_before_ns = clock.now().boot_ns + std::chrono::nanoseconds(crash_pause).count();
  crash_pause = std::min(crash_pause * 2, options.hang_pause);
  end_both(why);
}

/// The probe is gone: what was asked of it is answered.
void ProbeInventory::Impl::end_both(const std::string& why) {
  give_up_usage();
  if (current.empty()) {
    keep_one(options.crash_pause);
  } else {
    finish(incomplete(why));
  }
}

void ProbeInventory::Impl::on_deadline() {
  const milliseconds limit = probe->is_warm ? options.deadline : options.first_deadline;
  const ProbeProgress at = probe->at;
  const int gpu = at.at == "gpu" ? at.index : -1;
  pause_why = fmt::format("the NVIDIA driver did not answer within {}", seconds_in_words(limit));
  if (gpu >= 0) {
    pause_why += fmt::format(" about GPU {}", gpu);
    skip.insert(gpu);
    skip_until_ns = clock.now().boot_ns + std::chrono::nanoseconds(options.skip_pause).count();
  }
  abandon(true, gpu);
  start_not_before_ns = clock.now().boot_ns + std::chrono::nanoseconds(options.hang_pause).count();
  end_both(pause_why);
}

// Kills the probe and leaves it to itself; it is reaped when the kernel lets go of it.
void ProbeInventory::Impl::abandon(bool hung, int gpu) {
  probe->stream.reset();
  (void)os::send_signal(probe->pidfd, SIGKILL);
  const int fd = probe->pidfd.get();
  const pid_t pid = probe->pid;
  abandoned.push_back({std::move(probe->pidfd), hung, gpu});
  probe.reset();
  const Result<void> watched = loop.watch(fd, EPOLLIN, [this, fd, pid](std::uint32_t) {
    loop.unwatch(fd);
    os::reap(pid);
    std::erase_if(abandoned, [&](const Abandoned& gone) { return gone.pidfd.get() == fd; });
    keep_one(milliseconds{0});
  });
  if (!watched) abandoned.pop_back();
}

void ProbeInventory::Impl::finish(GpuLook look) {
  if (timer) loop.cancel(*timer);
  timer.reset();
  carry_identities(look, last);
  look.xids.insert(look.xids.begin(), xids.begin(), xids.end());
  xids.clear();
  if (look.complete) last = look;
  const std::vector<Done> answered = std::exchange(current, std::exchange(waiting, {}));
  const auto listens = [](const Done& done) { return done != nullptr; };
  if (std::ranges::none_of(answered, listens)) xids = look.xids;
  if (!current.empty()) begin();
  for (const Done& done : answered) {
    if (done) done(look);
  }
  keep_one(options.crash_pause);
}

ProbeInventory::ProbeInventory() = default;
ProbeInventory::~ProbeInventory() = default;

std::unique_ptr<ProbeInventory> ProbeInventory::create(os::Loop& loop, os::Clock& clock,
                                                       ProbeOptions options) {
  std::unique_ptr<ProbeInventory> inventory(new ProbeInventory());
  inventory->impl_ = std::make_unique<Impl>(loop, clock, std::move(options));
  return inventory;
}

void ProbeInventory::look(std::function<void(const GpuLook&)> done) { impl_->ask(std::move(done)); }

void ProbeInventory::stay(bool wanted) { impl_->stay(wanted); }

bool ProbeInventory::read_usage(const UsageQuestion& question, const UsageDone& done) {
  return impl_->read_usage(question, done);
}

}  // namespace pergpu::gpu
