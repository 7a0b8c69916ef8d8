// Which process is whose keeper is decided in one place (os/process/keeper_words.h).
#include "run/living_keepers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "os/fs/file.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"

namespace pergpu {
namespace {

bool is_ours(pid_t pid) {
  struct stat process = {};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &process) == 0 &&
         process.st_uid == ::geteuid();
}

/// "HOME/17.2" -> "job 17 (process 4711)"; "": it is no attempt's.
std::string attempt_words(pid_t pid) {
  const std::string marker = os::environment_value(pid, os::kMarkerName).value_or("");
  const std::string attempt = marker.substr(marker.rfind('/') + 1);
  const std::string job = attempt.substr(0, attempt.find('.'));
  if (job.empty()) return {};
  return "job " + job + " (process " + std::to_string(pid) + ")";
}

}  // namespace

std::vector<LivingKeeper> living_keepers(const std::string& home) {
  std::vector<LivingKeeper> found;
  for (const pid_t pid : os::all_processes()) {
    const std::optional<os::KeeperWords> words = os::keeper_words(pid);
    if (!words || words->number <= 0 || !words->has_home(home) || !is_ours(pid)) continue;
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    if (!stat || stat->ended()) continue;
    found.push_back(
        {.id = {words->number}, .pid = pid, .start_ticks = stat->start_ticks, .words = *words});
  }
  return found;
}

std::string home_identity(const std::string& home) {
  const Result<os::FileIdentity> folder = os::file_identity(home);
  return folder ? std::to_string(folder->device) + ":" + std::to_string(folder->inode)
                : std::string();
}

std::string words_of(const std::vector<LivingKeeper>& keepers) {
  std::string out;
  const auto add = [&](const std::string& words) { out += (out.empty() ? "" : ", ") + words; };
  for (const LivingKeeper& keeper : keepers) {
    std::string attempts;
    for (const pid_t child : os::children_of(keeper.pid)) {
      if (attempts.empty()) attempts = attempt_words(child);
    }
    add(attempts.empty() ? "keeper process " + std::to_string(keeper.pid) : attempts);
  }
  return out;
}

}  // namespace pergpu
