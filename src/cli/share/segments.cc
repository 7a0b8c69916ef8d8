// The coordinator reports what it holds and by which key; the kernel reports which process has
// what, which is more: processes that met without a coordinator, and children that inherited a
// mapping.  The coordinator's own descriptors are what holds a segment, and no use of it.
#include "cli/share/segments.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "broker/meeting_request.h"
#include "os/clock.h"
#include "os/ipc/shared_memory.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "pergpu:";

/// The job of this home that a process belongs to.
std::optional<std::int64_t> job_of(pid_t pid, const std::string& home) {
  const std::optional<std::string> marker = os::environment_value(pid, os::kMarkerName);
  if (!marker || !marker->starts_with(home + "/")) return std::nullopt;
  std::int64_t job = 0;
  const char* end = marker->data() + marker->size();
  const auto [rest, error] = std::from_chars(marker->data() + home.size() + 1, end, job);
  if (error != std::errc{} || rest == end || *rest != '.') return std::nullopt;
  return job;
}

std::string kind_of_name(const std::string& name) { return name.substr(0, name.find('-')); }

/// What the coordinator says of a segment that it holds.
view::Segment segment_in(const json& told) {
  view::Segment segment{.name = told.value("name", std::string()),
                        .key = told.value("title", std::string()),
                        .bytes = told.value("bytes", std::uint64_t{0}),
                        .made_at = from_rfc3339(told.value("made_at", std::string())),
                        .held = true,
                        .keep = told.value("keep", false)};
  segment.kind = kind_of_name(segment.name);
  for (const json& sweep : told.value("sweeps", json::array())) {
    segment.sweeps.emplace_back(sweep.value("id", std::int64_t{0}),
                                sweep.value("sweep", std::string()));
  }
  return segment;
}

os::MemoryId id_in(const json& told) {
  return {.device = told.value("device", std::uint64_t{0}),
          .inode = told.value("inode", std::uint64_t{0})};
}

void add_users(view::Segment& segment, const os::HeldMemory& found, std::int64_t coordinator,
               const std::string& home) {
  std::set<std::int64_t> jobs;
  for (const os::MemoryHolder& holder : found.holders) {
    if (holder.pid == coordinator) continue;
    ++segment.processes;
    if (const std::optional<std::int64_t> job = job_of(holder.pid, home)) jobs.insert(*job);
  }
  segment.jobs.assign(jobs.begin(), jobs.end());
}

}  // namespace

Result<json> ask_meeting_place(const Place& place, const json& request,
                               std::chrono::milliseconds patience) {
  Result<os::UniqueFd> fd = os::connect_unix(meeting_socket(place.run_dir), /*nonblocking=*/true);
  if (!fd) {
    Error error = std::move(fd).error();
    // A socket without a listener was left by a coordinator that was killed.
    if (error.kind == ErrorKind::Unavailable) error.kind = ErrorKind::NotFound;
    return error;
  }
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) return std::move(loop).error();
  Result<json> answer = Error{ErrorKind::Unavailable, 0, "the coordinator did not answer"};
  Result<std::unique_ptr<os::FrameStream>> stream =
      os::FrameStream::open(**loop, *std::move(fd),
                            {.on_frame =
                                 [&](const os::FrameStream::Frame& frame) {
                                   answer = json::parse(frame.payload, nullptr, false);
                                   (*loop)->stop();
                                 },
                             .on_close =
                                 [&](const Error& why) {
                                   answer = why;
                                   (*loop)->stop();
                                 }},
                            64u << 20);
  if (!stream) return std::move(stream).error();
  (*stream)->send(kMeetingAsks, request.dump());
  (*loop)->at(os::boot_now_ns() + std::chrono::nanoseconds(patience).count(),
              [&] { (*loop)->stop(); });
  if (Result<void> ran = (*loop)->run(); !ran) return std::move(ran).error();
  if (!answer) return answer;
  if (!answer->is_object())
    return Error{ErrorKind::Corrupt, 0, "can't parse the coordinator's answer"};
  const std::string is = answer->value("is", std::string());
  if (is == "wrong" || is == "no") {
    return Error{ErrorKind::Invalid, 0, answer->value("why", std::string())};
  }
  return answer;
}

std::vector<view::Segment> held_segments(const Place& place, std::chrono::milliseconds patience) {
  const Result<json> told = ask_meeting_place(place, {{"op", "list"}}, patience);
  std::vector<view::Segment> held;
  for (const json& one : told ? told->value("segments", json::array()) : json::array()) {
    held.push_back(segment_in(one));
  }
  return held;
}

std::vector<view::Segment> find_segments(const Place& place) {
  const Result<json> told = ask_meeting_place(place, {{"op", "list"}});
  const std::int64_t coordinator = told ? told->value("pid", std::int64_t{0}) : 0;
  std::map<os::MemoryId, view::Segment> held;
  for (const json& one : told ? told->value("segments", json::array()) : json::array()) {
    held[id_in(one)] = segment_in(one);
  }
  std::vector<view::Segment> all;
  for (const os::HeldMemory& found : os::find_memory(kPrefix, os::LookAt::MappingsToo)) {
    const auto known = held.find(found.memory.id);
    view::Segment segment;
    if (known != held.end()) {
      segment = std::move(known->second);
      held.erase(known);
    } else {
      segment.name = found.memory.name.substr(kPrefix.size());
      segment.kind = kind_of_name(segment.name);
      segment.bytes = found.memory.bytes;
      segment.made_at = found.memory.made_wall_ns;
    }
    add_users(segment, found, coordinator, place.home);
    // The coordinator has let go of it since it was asked, and no process has it.
    if (!segment.held && segment.processes == 0) continue;
    all.push_back(std::move(segment));
  }
  // The coordinator's open files cannot be seen from here, in a container say.
  for (auto& [id, segment] : held) all.push_back(std::move(segment));
  std::ranges::stable_sort(all, {}, [](const view::Segment& s) { return s.made_at; });
  return all;
}

}  // namespace pergpu::cli
