// What becomes of a user's processes at a logout: systemd's logind ends those of a session where
// KillUserProcesses says so, and the user manager with all it runs ends with the last session,
// unless the user lingers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

/// Of logind.conf(5).
struct LogoutRules {
  std::optional<bool> kills = std::nullopt;  // KillUserProcesses; nullopt: no file says it
  std::vector<std::string> only = {};        // KillOnlyUsers
  /// KillExcludeUsers; nullopt: not set, which spares root.
  std::optional<std::vector<std::string>> spared = std::nullopt;
};
/// `main` is logind.conf, `others` its drop-ins in the order of their names.  Where nothing is set,
/// the line that `main` has as a comment says what was chosen when systemd was built.
LogoutRules logout_rules_in(std::string_view main, const std::vector<std::string>& others);
/// Of the machine whose files lie below `root` ("" for this one).
LogoutRules read_logout_rules(const std::string& root);

/// Whether a logout ends what `user` left in the session; nullopt: can't be determined.
std::optional<bool> logout_ends_processes(const LogoutRules& rules, std::string_view user);

/// `user`'s manager starts at boot and stays without a session.
bool lingers(const std::string& root, const std::string& user);

/// Who a process belongs to in systemd's eyes.
enum class Keeping : std::uint8_t { Nobody, Session, UserManager, System };
/// Of the text of /proc/<pid>/cgroup.
Keeping keeping_in(std::string_view cgroups);

}  // namespace pergpu::os
