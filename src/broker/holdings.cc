// Every change of what is held for a sweep or kept ends in save(); it is rare, and the file small.
#include "broker/holdings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/snapshot.h"
#include "broker/meeting_request.h"
#include "json_text.h"
#include "os/fs/file.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOfTable = 64u << 20;
constexpr std::string_view kMemoryPrefix = "pergpu:";

json numbers_of(const std::set<SweepId>& sweeps) {
  json numbers = json::array();
  for (const SweepId sweep : sweeps) numbers.push_back(sweep.value);
  return numbers;
}

/// What a line of the table says; a name of "": nothing that can be used.
struct RememberedHolding {
  std::string name = {};
  std::string title = {};
  os::MemoryId id = {};
  HeldFor who = {};
};

RememberedHolding remembered_in(const json& line) {
  RememberedHolding one;
  try {
    one.title = line.at("title").get<std::string>();
    one.id = {.device = line.at("device").get<std::uint64_t>(),
              .inode = line.at("inode").get<std::uint64_t>()};
    one.who.keep = line.at("keep").get<bool>();
    for (const json& sweep : line.at("sweeps")) one.who.sweeps.insert({sweep.get<std::int64_t>()});
    one.name = line.at("name").get<std::string>();
  } catch (const json::exception&) {
    return {};
  }
  return one;
}

bool lasts(const HeldFor& who) { return who.keep || !who.sweeps.empty(); }

void unite(HeldFor& all, const HeldFor& more) {
  all.keep = all.keep || more.keep;
  all.sweeps.insert(more.sweeps.begin(), more.sweeps.end());
  all.processes.insert(more.processes.begin(), more.processes.end());
}

}  // namespace

void Holdings::recover(const std::function<bool(SweepId)>& can_run) {
  const Result<std::string> text = os::read_file(table_, kMostOfTable);
  if (!text) return;
  const json lines = json::parse(*text, nullptr, false);
  std::optional<std::vector<os::HeldMemory>> there;  // looked for once there is a reason to
  for (const json& line : lines.is_array() ? lines : json::array()) {
    RememberedHolding one = remembered_in(line);
    std::erase_if(one.who.sweeps, [&](SweepId sweep) { return !can_run(sweep); });
    if (!is_meeting_name(one.name) || one.who.is_nobody()) continue;
    if (!there) there = os::find_memory(kMemoryPrefix, os::LookAt::OpenFiles);
    const auto same = std::ranges::find_if(
        *there, [&](const os::HeldMemory& held) { return held.memory.id == one.id; });
    if (same == there->end()) continue;
    for (const os::MemoryHolder& holder : same->holders) {
      std::optional<os::UniqueFd> fd = os::open_memory(holder, one.id);
      if (fd && take(one.name, one.title, *std::move(fd), one.who)) break;
    }
  }
  save();  // once: who is killed before has lost no line that is not taken up yet
}

const Holding* Holdings::find(std::string_view name) const {
  const auto found = held_.find(name);
  return found == held_.end() ? nullptr : &found->second;
}

Result<void> Holdings::put(const std::string& name, const std::string& title, os::UniqueFd fd,
                           const HeldFor& who) {
  Result<void> taken = take(name, title, std::move(fd), who);
  if (taken && lasts(held_[name].who)) save();
  return taken;
}

Result<void> Holdings::take(const std::string& name, const std::string& title, os::UniqueFd fd,
                            const HeldFor& who) {
  Result<os::SharedMemory> memory = os::memory_of(fd.get());
  if (!memory) return std::move(memory).error();
  if (memory->name != std::string(kMemoryPrefix) + name) {
    return Error{
        ErrorKind::Invalid, 0,
        fmt::format("expected memory named `{}{}`, got `{}`", kMemoryPrefix, name, memory->name)};
  }
  if (held_.size() >= most_ && !held_.contains(name)) {
    return Error{
        ErrorKind::Full, 0,
        fmt::format("{} segments are open, the maximum; raise the limit of open files (ulimit -n)",
                    most_)};
  }
  Holding& holding = held_[name];
  holding.name = name;
  holding.title = title;
  holding.fd = std::move(fd);
  holding.memory = *std::move(memory);
  unite(holding.who, who);
  return {};
}

void Holdings::add(const std::string& name, const HeldFor& who) {
  HeldFor& all = held_.find(name)->second.who;
  const bool is_new = (who.keep && !all.keep) || !std::ranges::includes(all.sweeps, who.sweeps);
  unite(all, who);
  if (is_new) save();
}

void Holdings::process_ended(pid_t pid) {
  for (auto& [name, holding] : held_) holding.who.processes.erase(pid);
  let_go();
}

void Holdings::review(const std::function<bool(SweepId)>& can_run) {
  bool changed = false;
  for (auto& [name, holding] : held_) {
    changed =
        std::erase_if(holding.who.sweeps, [&](SweepId id) { return !can_run(id); }) > 0 || changed;
  }
  if (!changed) return;
  let_go();
  save();
}

std::vector<std::string> Holdings::drop(std::string_view what) {
  std::vector<std::string> names;
  for (const auto& [name, holding] : held_) {
    if (name == what || holding.title == what) names.push_back(name);
  }
  for (const std::string& name : names) held_.erase(name);
  if (!names.empty()) save();
  return names;
}

std::size_t Holdings::kept() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(held_, [](const auto& one) { return one.second.who.keep; }));
}

bool Holdings::has_sweeps() const {
  return std::ranges::any_of(held_, [](const auto& one) { return !one.second.who.sweeps.empty(); });
}

json Holdings::list() const {
  json segments = json::array();
  for (const auto& [name, holding] : held_) {
    segments.push_back(json::object({{"name", name},
                                     {"title", holding.title},
                                     {"bytes", holding.memory.bytes},
                                     {"made_at", rfc3339(holding.memory.made_wall_ns)},
                                     {"keep", holding.who.keep},
                                     {"sweeps", numbers_of(holding.who.sweeps)},
                                     {"device", holding.memory.id.device},
                                     {"inode", holding.memory.id.inode}}));
  }
  return segments;
}

void Holdings::let_go() {
  std::erase_if(held_, [](const auto& one) { return one.second.who.is_nobody(); });
}

void Holdings::move_table(std::string table) {
  table_ = std::move(table);
  save();
}

void Holdings::save() const {
  json lines = json::array();
  for (const json& one : list()) {
    if (one.at("keep").get<bool>() || !one.at("sweeps").empty()) lines.push_back(one);
  }
  if (lines.empty()) {
    ::unlink(table_.c_str());
    return;
  }
  const std::string text = json_text(lines);
  const Result<void> written = os::write_file_atomic(table_, text, 0600, /*durable=*/false);
  if (!written) std::fprintf(stderr, "pergpu: %s\n", written.error().message.c_str());
}

}  // namespace pergpu
