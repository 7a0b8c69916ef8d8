// A group's path in /proc/self/cgroup counts from the root of its hierarchy; what is mounted may be
// a part of it (containers), which mountinfo says.
#include "os/process/cgroup_site.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "ascii.h"
#include "os/fs/file.h"
#include "os/fs/mounts.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestProcFile = 1u << 20;

bool has_word(std::string_view text, std::string_view word, char separator) {
  const std::vector<std::string_view> words = split(text, separator);
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Of files of the kernel: words end with blanks or the line.
bool has_controller(std::string text, std::string_view word) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return has_word(text, word, ' ');
}

/// The first mount of cgroup v2, or of the v1 hierarchy with `controller`.
std::optional<Mount> hierarchy_of(std::string_view mountinfo, std::string_view controller) {
  for (Mount& mount : mounts_in(mountinfo)) {
    const bool fits = controller.empty()
                          ? mount.type == "cgroup2"
                          : mount.type == "cgroup" && has_word(mount.options, controller, ',');
    if (fits) return std::move(mount);
  }
  return std::nullopt;
}

/// This process's path in the v2 hierarchy (""), or in that of a v1 controller.
std::string own_path(std::string_view self_cgroup, std::string_view controller) {
  for (const std::string_view line : split(self_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_word(names, controller, ','))
      return std::string(line.substr(second + 1));
  }
  return {};
}

/// Where this process's group lies; "" when it cannot be seen.
std::string own_folder(const CgroupFacts& facts, std::string_view controller) {
  const std::optional<Mount> mount = hierarchy_of(facts.mountinfo, controller);
  std::string path = own_path(facts.self_cgroup, controller);
  if (!mount || path.empty() || path.find("/..") != std::string::npos) return {};
  if (mount->root != "/") {
    if (!path.starts_with(mount->root)) return {};
    path.erase(0, mount->root.size());
  }
  if (path == "/") path.clear();
  return mount->point + path;
}

bool ends_with_leaf(const std::string& folder) {
  return folder.ends_with(std::string("/") + kCgroupLeaf);
}

void say(CgroupSite& site, const std::string& words) {
  if (!site.words.empty()) site.words += "; ";
  site.words += words;
}

/// `asked`: a person named the folder, who vouches for it.
void choose_v2(const CgroupFacts& facts, const std::string& folder, bool asked,
               CgroupChoice& choice) {
  CgroupSite& site = choice.site;
  if (folder.empty()) return;
  if (!facts.may_write(folder) || !facts.may_write(folder + "/cgroup.procs"))
    return say(site, "cgroup v2: can't create groups in " + folder +
                         " (run under systemd-run --user --scope -p Delegate=yes)");
  const bool is_delegated = asked || facts.is_delegated(folder);
  if (!is_delegated && facts.has_systemd)
    return say(site, "cgroup v2: " + folder +
                         " belongs to systemd, which hasn't delegated it (run under systemd-run "
                         "--user --scope -p Delegate=yes)");
  site.track = {2, folder};
  say(site, "cgroup v2: jobs are ended as whole groups below " + folder);
  const std::string handed_on = facts.read(folder + "/cgroup.subtree_control");
  const std::string offered = facts.read(folder + "/cgroup.controllers");
  // The manager would put a service's next main process back into a group that must hold none.
  const bool is_service = folder.ends_with(".service") && !ends_with_leaf(folder);
  for (const char* name : {"memory", "cpu"}) {
    CgroupPlace& place = name == std::string_view("memory") ? site.memory : site.cpu;
    if (has_controller(handed_on, name)) {
      place = {2, folder};
    } else if (has_controller(offered, name) && is_delegated && !is_service &&
               facts.may_write(folder + "/cgroup.subtree_control")) {
      place = {2, folder};
      choice.vacate = folder;
      choice.controllers.push_back(name);
    } else if (has_controller(offered, name)) {
      say(site, std::string(name) + " controller isn't available there");
    }
  }
}

void choose_v1(const CgroupFacts& facts, const char* controller, const char* what,
               CgroupPlace& place, CgroupSite& site) {
  if (place) return;
  const std::string folder = own_folder(facts, controller);
  if (folder.empty()) return;
  if (!facts.may_write(folder))
    return say(site,
               std::string("cgroup v1: no ") + controller + " group can be created in " + folder);
  place = {1, folder};
  say(site, std::string("cgroup v1: ") + what + " below " + folder);
}

bool is_marked_delegated(const std::string& folder) {
  for (const char* name : {"trusted.delegate", "user.delegate"}) {
    char value = 0;
    if (::getxattr(folder.c_str(), name, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

std::string small_file(const std::string& path) {
  Result<std::string> text = read_file(path, kLongestProcFile);
  return text ? *std::move(text) : std::string();
}

CgroupFacts facts_of_machine(std::string self_cgroup, std::string asked) {
  return {.mountinfo = small_file("/proc/self/mountinfo"),
          .self_cgroup = std::move(self_cgroup),
          .asked = std::move(asked),
          .has_systemd = is_directory("/run/systemd/system"),
          .may_write = [](const std::string& path) { return ::access(path.c_str(), W_OK) == 0; },
          .is_delegated = is_marked_delegated,
          .read = small_file};
}

}  // namespace

CgroupChoice choose_cgroups(const CgroupFacts& facts) {
  CgroupChoice choice;
  CgroupSite& site = choice.site;
  if (facts.asked == "none") {
    site.words = "PERGPU_CGROUP=none: no control groups are used";
    return choice;
  }
  if (!facts.asked.empty()) {
    choose_v2(facts, facts.asked, true, choice);
    return choice;
  }
  std::string own = own_folder(facts, "");
  if (ends_with_leaf(own)) own = parent_of(own);
  choose_v2(facts, own, false, choice);
  choose_v1(facts, "memory", "memory is limited", site.memory, site);
  choose_v1(facts, "cpu", "cpus are limited", site.cpu, site);
  choose_v1(facts, "freezer", "jobs with a limit are ended as groups", site.track, site);
  if (site.words.empty()) site.words = "no control groups are mounted";
  return choice;
}

Result<void> hand_on(const CgroupChoice& choice) {
  if (choice.vacate.empty()) return {};
  const std::string leaf = choice.vacate + "/" + kCgroupLeaf;
  if (::mkdir(leaf.c_str(), 0755) < 0 && errno != EEXIST) return os_error("make " + leaf);
  constexpr int kMostRounds = 64;  // what is moved may have forked
  for (int round = 0; round < kMostRounds; ++round) {
    const std::string procs = small_file(choice.vacate + "/cgroup.procs");
    if (procs.empty()) break;
    for (const std::string_view pid : split(procs, '\n'))
      (void)write_kernel_file(leaf + "/cgroup.procs", std::string(pid));  // it may have ended
  }
  for (const std::string& controller : choice.controllers) {
    Result<void> written =
        write_kernel_file(choice.vacate + "/cgroup.subtree_control", "+" + controller);
    if (!written) return written;
  }
  return {};
}

CgroupSite find_cgroups() {
  const char* asked = std::getenv("PERGPU_CGROUP");
  CgroupChoice choice =
      choose_cgroups(facts_of_machine(small_file("/proc/self/cgroup"), asked ? asked : ""));
  if (Result<void> done = hand_on(choice); !done) {
    choice.site.memory = {};
    choice.site.cpu = {};
    say(choice.site, "can't enable its controllers: " + done.error().message);
  }
  return choice.site;
}

CgroupSite foresee_cgroups(pid_t pid) {
  const std::string self_cgroup = small_file("/proc/" + std::to_string(pid) + "/cgroup");
  const std::string asked = environment_value(pid, "PERGPU_CGROUP").value_or("");
  return choose_cgroups(facts_of_machine(self_cgroup, asked)).site;
}

std::string to_text(const CgroupPlace& place) {
  return std::to_string(place.version) + ":" + place.folder;
}

CgroupPlace cgroup_place_of(const std::string& text) {
  if (text.size() < 3 || text[1] != ':' || (text[0] != '1' && text[0] != '2')) return {};
  return {text[0] - '0', text.substr(2)};
}

}  // namespace pergpu::os
