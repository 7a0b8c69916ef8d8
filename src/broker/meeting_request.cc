// Strict: a field that is missing, or of another type, is an error that names it.
#include "broker/meeting_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/request.h"
#include "job/json_depth.h"

namespace pergpu {
namespace {

using nlohmann::json;
using MeetingOp = MeetingRequest::Op;

constexpr std::size_t kHashDigits = 32;
constexpr std::size_t kLongestKind = 32;

std::optional<std::string> text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// Absent is false.
std::optional<bool> flag_in(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  if (!found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

Result<MeetingRequest> get_of(const json& object) {
  MeetingRequest request{.op = MeetingOp::Get};
  const std::optional<std::string> name = text_in(object, "name");
  if (!name || !is_meeting_name(*name)) {
    return malformed_request(
        fmt::format("`name` must be a kind, `-` and {} hexadecimal digits", kHashDigits));
  }
  request.name = *name;
  const std::optional<std::string> title = text_in(object, "title");
  if (!title || title->empty()) return malformed_request("`title` must be a string");
  request.title = *title;
  const std::optional<bool> keep = flag_in(object, "keep");
  if (!keep) return malformed_request("`keep` must be true or false");
  request.keep = *keep;
  const std::optional<bool> other = flag_in(object, "other");
  if (!other) return malformed_request("`other` must be true or false");
  request.other = *other;
  const std::string scope = text_in(object, "scope").value_or("");
  if (scope != "user" && scope != "sweep")
    return malformed_request("`scope` must be \"user\" or \"sweep\"");
  if (scope == "user") return request;
  request.scope = MeetingRequest::Scope::Sweep;
  const auto job = object.find("job");
  const bool is_job = job != object.end() && job->is_number_unsigned() &&
                      std::in_range<std::int64_t>(job->get<std::uint64_t>());
  if (!is_job) return malformed_request("`job` must be the number of a job");
  request.job = {job->get<std::int64_t>()};
  return request;
}

}  // namespace

bool is_meeting_name(std::string_view name) {
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash > kLongestKind) return false;
  const std::string_view kind = name.substr(0, dash);
  const std::string_view hash = name.substr(dash + 1);
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return hash.size() == kHashDigits && std::ranges::all_of(kind, is_letter) &&
         std::ranges::all_of(hash, is_digit);
}

Result<MeetingRequest> meeting_request_of(std::string_view text) {
  if (text.size() > kMostMeetingBytes) {
    return malformed_request(
        fmt::format("{} bytes, but at most {} are allowed", text.size(), kMostMeetingBytes));
  }
  if (nests_deeper_than(text, kMostNestedJson)) {
    return malformed_request(fmt::format("nested more than {} levels deep", kMostNestedJson));
  }
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return malformed_request("expected one JSON object");
  const std::string op = text_in(object, "op").value_or("");
  if (op == "get") return get_of(object);
  if (op == "put") return MeetingRequest{.op = MeetingOp::Put};
  if (op == "list") return MeetingRequest{.op = MeetingOp::List};
  if (op == "drop") {
    std::optional<std::string> what = text_in(object, "what");
    if (!what || what->empty()) return malformed_request("`what` must be a title or a name");
    return MeetingRequest{.op = MeetingOp::Drop, .what = *std::move(what)};
  }
  return malformed_request("`op` must be get, put, list or drop");
}

}  // namespace pergpu
