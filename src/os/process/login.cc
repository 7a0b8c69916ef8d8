// The files are read as systemd does: of drop-ins with one name the one of the higher folder
// counts, an empty value clears a list, a later value adds to it.
#include "os/process/login.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ascii.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestConfig = 1u << 20;
constexpr std::string_view kLineBlanks = " \t\r";

/// The value when `line` is "name=value".
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  line = trimmed(line.substr(name.size()), kLineBlanks);
  if (!line.starts_with('=')) return std::nullopt;
  return trimmed(line.substr(1), kLineBlanks);
}

std::optional<bool> flag_of(std::string_view text) {
  constexpr std::array<std::string_view, 6> kYes = {"1", "yes", "y", "true", "t", "on"};
  constexpr std::array<std::string_view, 6> kNo = {"0", "no", "n", "false", "f", "off"};
  if (std::find(kYes.begin(), kYes.end(), text) != kYes.end()) return true;
  if (std::find(kNo.begin(), kNo.end(), text) != kNo.end()) return false;
  return std::nullopt;
}

void extend(std::vector<std::string>& list, std::string_view value) {
  if (value.empty()) list.clear();
  for (const std::string_view word : split(value, ' ')) list.emplace_back(word);
}

void read_into(std::string_view text, LogoutRules& rules) {
  constexpr std::string_view kKills = "KillUserProcesses";
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trimmed(raw, kLineBlanks);
    if (const auto value = value_of(line, kKills)) {
      if (const std::optional<bool> kills = flag_of(*value)) rules.kills = kills;
    } else if (const auto only = value_of(line, "KillOnlyUsers")) {
      extend(rules.only, *only);
    } else if (const auto spared = value_of(line, "KillExcludeUsers")) {
      if (!rules.spared) rules.spared.emplace();
      extend(*rules.spared, *spared);
    }
  }
}

std::optional<bool> commented_in(std::string_view text) {
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trimmed(raw, kLineBlanks);
    if (!line.starts_with('#')) continue;
    const auto value = value_of(trimmed(line.substr(1), kLineBlanks), "KillUserProcesses");
    if (value) return flag_of(*value);
  }
  return std::nullopt;
}

// Lowest first.
constexpr std::array<const char*, 4> kSystemdFolders = {
    "/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd"};

}  // namespace

LogoutRules logout_rules_in(std::string_view main, const std::vector<std::string>& others) {
  LogoutRules rules;
  read_into(main, rules);
  for (const std::string& other : others) read_into(other, rules);
  if (!rules.kills) rules.kills = commented_in(main);
  return rules;
}

LogoutRules read_logout_rules(const std::string& root) {
  std::string main;
  std::map<std::string, std::string> drop_ins;  // name -> path
  for (const char* folder : kSystemdFolders) {
    const std::string path = root + folder + "/logind.conf";
    if (Result<std::string> text = read_file(path, kLongestConfig)) main = *std::move(text);
    const Result<std::vector<std::string>> names = list_dir(path + ".d");
    if (!names) continue;
    for (const std::string& name : *names) {
      if (name.ends_with(".conf")) drop_ins[name] = path + ".d/" + name;
    }
  }
  std::vector<std::string> others;
  for (const auto& [name, path] : drop_ins) {
    if (Result<std::string> text = read_file(path, kLongestConfig)) {
      others.push_back(*std::move(text));
    }
  }
  return logout_rules_in(main, others);
}

std::optional<bool> logout_ends_processes(const LogoutRules& rules, std::string_view user) {
  if (!rules.spared && user == "root") return false;
  if (rules.spared && contains(*rules.spared, user)) return false;
  if (!rules.only.empty()) return contains(rules.only, user);
  return rules.kills;
}

bool lingers(const std::string& root, const std::string& user) {
  if (user.empty() || user.find('/') != std::string::npos) return false;
  return exists(root + "/var/lib/systemd/linger/" + user);
}

Keeping keeping_in(std::string_view cgroups) {
  Keeping keeping = Keeping::Nobody;
  for (const std::string_view line : split(cgroups, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (!names.empty() && names != "name=systemd") continue;
    const std::string_view path = line.substr(second + 1);
    if (path.find("/user@") != std::string_view::npos) return Keeping::UserManager;
    if (path.find("/session-") != std::string_view::npos) return Keeping::Session;
    if (path.find("/system.slice/") != std::string_view::npos) keeping = Keeping::System;
  }
  return keeping;
}

}  // namespace pergpu::os
