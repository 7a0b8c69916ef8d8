// A compute process decides before memory does: memory alone does not show who uses it, and it lags
// behind.
#include "gpu/foreign.h"

#include <fmt/format.h>

#include <algorithm>

namespace pergpu::gpu {

namespace {

std::string name_of(const GpuProcess& process, const UseQuestion& question) {
  if (!process.uid) return "another user";
  return question.user_name ? question.user_name(*process.uid)
                            : fmt::format("uid {}", *process.uid);
}

// "python3, pid 4711, 21.3 GiB": what is known of a process.
std::string process_in_words(const GpuProcess& process, const char* pid_word) {
  std::string text;
  if (!process.command.empty()) text += process.command + ", ";
  text += fmt::format("{} {}", pid_word, process.pid);
  if (process.memory_bytes) text += ", " + bytes_in_words(*process.memory_bytes);
  return text;
}

std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" and {} more", count - 1) : std::string();
}

std::string foreign_words(const std::vector<GpuProcess>& who, const UseQuestion& question) {
  return fmt::format("used by {} ({}){}", name_of(who.front(), question),
                     process_in_words(who.front(), "pid"), and_more(who.size()));
}

std::string left_words(const std::vector<GpuProcess>& who) {
  return fmt::format("{}{}", process_in_words(who.front(), "pid"), and_more(who.size()));
}

std::string unmatched_words(const std::vector<GpuProcess>& who, const GpuReading& reading,
                            const UseQuestion& question) {
  if (!question.in_container && !reading.device_holders.empty()) {
    return fmt::format("used by a process that has ended ({}){}; its device file is open in {}",
                       process_in_words(who.front(), "pid"), and_more(who.size()),
                       left_words(reading.device_holders));
  }
  return fmt::format("used by a process that isn't visible {} ({}){}",
                     question.in_container ? "in this container" : "here",
                     process_in_words(who.front(), question.in_container ? "host pid" : "pid"),
                     and_more(who.size()));
}

// What keeps a device from being used, whatever runs on it; empty when nothing does.
std::string health_words(const GpuReading& reading) {
  switch (reading.health) {
    case GpuHealth::Ok:
      return {};
    case GpuHealth::Unknown:
      return reading.note.empty() ? "the driver didn't report its state" : reading.note;
    case GpuHealth::Lost:
      return reading.note.empty() ? "the driver has lost it" : reading.note;
    case GpuHealth::Error:
      return reading.note.empty() ? "the driver reports an error" : reading.note;
  }
  return "its health is unknown";
}

}  // namespace

std::string_view to_string(GpuUse use) {
  switch (use) {
    case GpuUse::Free:
      return "free";
    case GpuUse::Ours:
      return "ours";
    case GpuUse::Foreign:
      return "foreign";
    case GpuUse::UnknownHolder:
      return "unknown holder";
    case GpuUse::Dirty:
      return "dirty";
    case GpuUse::Unusable:
      return "unusable";
  }
  return "unknown";
}

std::uint64_t free_bytes(const GpuReading& reading) {
  const bool is_known = reading.health == GpuHealth::Ok && reading.total_bytes > 0;
  return is_known ? reading.total_bytes - std::min(reading.used_bytes, reading.total_bytes) : 0;
}

UseVerdict judge(const GpuReading& reading, const UseQuestion& question) {
  if (reading.health != GpuHealth::Ok) {
    return {.use = GpuUse::Unusable, .words = health_words(reading)};
  }

  const auto is_ours = [&](const GpuProcess& process) {
    // In a container a pid that happens to exist here is another process's number.
    return process.matched && !question.in_container && question.ours && question.ours(process);
  };
  std::vector<GpuProcess> ours;
  std::vector<GpuProcess> foreign;
  std::vector<GpuProcess> unmatched;
  for (const GpuProcess& process : reading.processes) {
    if (!process.compute) continue;
    if (is_ours(process)) {
      ours.push_back(process);
    } else if (question.in_container || !process.matched) {
      // On a lane where ours runs, it is ours as far as can be determined.
      (question.running_ours ? ours : unmatched).push_back(process);
    } else {
      foreign.push_back(process);
    }
  }

  const bool has_room = question.outsiders == Outsiders::Fit &&
                        free_bytes(reading) >= question.needed_bytes &&
                        !(question.after_job && foreign.empty() && unmatched.empty());
  const bool ignore = question.outsiders == Outsiders::Ignore || has_room;
  if (!ignore && !foreign.empty()) {
    return {GpuUse::Foreign, foreign_words(foreign, question), foreign};
  }
  if (!ignore && !unmatched.empty() && question.after_job) {
    // As a rule the remains of that job, which the driver lists a little longer.
    return {GpuUse::Dirty,
            "after a job ended, still " + unmatched_words(unmatched, reading, question), unmatched};
  }
  if (!ignore && !unmatched.empty()) {
    return {GpuUse::UnknownHolder, unmatched_words(unmatched, reading, question), unmatched};
  }
  if (question.running_ours) return {.use = GpuUse::Ours, .words = {}, .holders = ours};

  std::vector<GpuProcess> left = ours;
  std::copy_if(reading.device_holders.begin(), reading.device_holders.end(),
               std::back_inserter(left), is_ours);
  if (!left.empty()) {
    if (question.after_job) {
      return {GpuUse::Dirty, "processes of an ended job are still running: " + left_words(left),
              left};
    }
    return {GpuUse::Ours, "used by a job on another lane: " + left_words(left), left};
  }

  // Others are to be ignored and are there: memory says nothing about us.
  if (ignore) return {};
  const std::uint64_t idle = question.idle_bytes.value_or(kMaxIdleBytes);
  const std::uint64_t in_use = settled_bytes(reading);
  const std::uint64_t above = in_use > idle ? in_use - idle : 0;
  const std::vector<GpuProcess>& holders = reading.device_holders;
  const std::string held =
      holders.empty() ? std::string(", but by no known process")
                      : fmt::format("; its device file is open in {}", left_words(holders));
  if (question.after_job && above > kCleanAboveIdleBytes) {
    return {GpuUse::Dirty,
            fmt::format("{} above idle still in use after a job{}", bytes_in_words(above), held),
            holders};
  }
  if (above > kUsedAboveIdleBytes) {
    return {GpuUse::UnknownHolder,
            fmt::format("{} above idle in use{}", bytes_in_words(above), held), holders};
  }
  return {};
}

bool descends_from(const GpuProcess& process, const std::vector<std::int32_t>& roots) {
  const auto is_root = [&](std::int32_t pid) {
    return std::find(roots.begin(), roots.end(), pid) != roots.end();
  };
  return is_root(process.pid) ||
         std::any_of(process.ancestors.begin(), process.ancestors.end(), is_root);
}

std::uint64_t unexplained_bytes(const GpuReading& reading, std::uint64_t idle_bytes) {
  std::uint64_t explained = idle_bytes;
  for (const GpuProcess& process : reading.processes) {
    if (!process.memory_bytes) return 0;
    explained += *process.memory_bytes;
  }
  return reading.used_bytes > explained ? reading.used_bytes - explained : 0;
}

std::uint64_t settled_bytes(const GpuReading& reading) {
  std::uint64_t graphics = 0;
  for (const GpuProcess& process : reading.processes) {
    if (process.compute) continue;
    // Of unknown size: it may be all of it.
    if (!process.memory_bytes) return 0;
    graphics += *process.memory_bytes;
  }
  return reading.used_bytes > graphics ? reading.used_bytes - graphics : 0;
}

void IdleMemory::learn(const GpuReading& reading) {
  if (reading.health != GpuHealth::Ok || reading.uuid.empty()) return;
  for (const GpuProcess& process : reading.processes) {
    // Of graphics without a size settled_bytes() knows nothing: no reading to learn from.
    if (process.compute || !process.memory_bytes) return;
  }
  const std::uint64_t seen = std::min(settled_bytes(reading), kMaxIdleBytes);
  const auto [entry, is_new] = lowest_.try_emplace(reading.uuid, seen);
  if (!is_new) entry->second = std::min(entry->second, seen);
}

std::optional<std::uint64_t> IdleMemory::of(const std::string& uuid) const {
  const auto entry = lowest_.find(uuid);
  if (entry == lowest_.end()) return std::nullopt;
  return entry->second;
}

std::string bytes_in_words(std::uint64_t bytes) {
  if (bytes >= 1024 * kMiB) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1024 * kMiB));
  }
  return fmt::format("{} MiB", bytes / kMiB);
}

}  // namespace pergpu::gpu
