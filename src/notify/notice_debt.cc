// What is on its way counts as pending in the store: killed meanwhile, the next coordinator sends
// it again.  That is the price of "at least once".
#include "notify/notice_debt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "job/json_depth.h"
#include "job/json_fields.h"
#include "json_text.h"
#include "plural.h"
#include "timers.h"
#include "utf8_bytes.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::int64_t kMoment = kSecond;  // what fails at once is sent at once, and together
constexpr std::int64_t kBetween = 300 * kSecond;  // failures that follow
constexpr std::int64_t kFirstNoticePause = 2 * kSecond;
constexpr std::int64_t kLongestNoticePause = 900 * kSecond;
constexpr std::size_t kLongestText = 500;

json to_json(const ChannelState& state) {
  const NoticeDebt debt = joined(state.sending, state.owed);
  json out = json::object();
  if (debt.failures > 0) out["failures"] = debt.failures;
  for (const JobId job : debt.failed) out["failed"].push_back(job.value);
  if (!debt.hold.empty()) out["hold"] = debt.hold;
  if (!debt.outage.empty()) out["outage"] = debt.outage;
  if (debt.ended_wall_ns != 0) out["ended_ns"] = debt.ended_wall_ns;
  if (state.tries > 0) out["tries"] = state.tries;
  if (!state.trouble.empty()) out["trouble"] = state.trouble;
  return out;
}

ChannelState state_of(const json& object) {
  ChannelState state;
  state.owed.failures = std::max<std::int64_t>(0, integer_at(object, "failures").value_or(0));
  if (const auto jobs = object.find("failed"); jobs != object.end() && jobs->is_array()) {
    for (const json& job : *jobs) {
      if (job.is_number_integer() && state.owed.failed.size() < kMostNamed)
        state.owed.failed.push_back({job.get<std::int64_t>()});
    }
  }
  state.owed.hold = string_at(object, "hold");
  state.owed.outage = string_at(object, "outage");
  state.owed.ended_wall_ns = integer_at(object, "ended_ns").value_or(0);
  state.tries = static_cast<int>(
      std::clamp<std::int64_t>(integer_at(object, "tries").value_or(0), 0, kMostTries));
  state.trouble = string_at(object, "trouble");
  return state;
}

}  // namespace

void add_failure(NoticeDebt& debt, JobId job) {
  ++debt.failures;
  if (debt.failed.size() < kMostNamed) debt.failed.push_back(job);
}

NoticeDebt joined(NoticeDebt older, const NoticeDebt& newer) {
  older.failures += newer.failures;
  for (const JobId job : newer.failed) {
    if (older.failed.size() < kMostNamed) older.failed.push_back(job);
  }
  if (!newer.hold.empty()) older.hold = newer.hold;
  if (!newer.outage.empty()) older.outage = newer.outage;
  if (newer.ended_wall_ns != 0) older.ended_wall_ns = newer.ended_wall_ns;
  return older;
}

std::string to_words(const NoticeDebt& debt) {
  std::vector<std::string> parts;
  if (debt.failures > 0) parts.push_back(counted(debt.failures, "failure"));
  if (!debt.hold.empty()) parts.emplace_back("held jobs");
  if (!debt.outage.empty()) parts.emplace_back("a disk problem that keeps jobs from starting");
  if (debt.ended_wall_ns != 0) parts.emplace_back("the end");
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " and " : ", ";
    out += parts[i];
  }
  return out;
}

std::int64_t due_ns(const ChannelState& state) {
  const bool is_urgent = state.owed.ended_wall_ns != 0;
  std::int64_t due = state.since_ns;
  if (!is_urgent && state.since_ns != 0) due += kMoment;
  if (!is_urgent && state.last_sent_ns != 0) due = std::max(due, state.last_sent_ns + kBetween);
  return std::max(due, state.not_before_ns);
}

void settle_debt(ChannelState& state, std::int64_t now_ns) {
  state.sending = {};
  state.tries = 0;
  state.trouble.clear();
  state.not_before_ns = 0;
  state.last_sent_ns = now_ns;
}

bool put_off(ChannelState& state, std::string_view why, std::int64_t now_ns) {
  state.owed = joined(std::exchange(state.sending, {}), state.owed);
  ++state.tries;
  state.trouble = abbreviated(why, kLongestText);
  state.not_before_ns = now_ns + pause_after(state.tries);
  if (state.tries < kMostTries) return false;
  state.owed = {};
  state.trouble = abbreviated(fmt::format("gave up after {} tries: {}", state.tries, state.trouble),
                              kLongestText);
  state.tries = 0;
  state.not_before_ns = 0;
  return true;
}

std::int64_t pause_after(int tries) {
  std::int64_t pause = kFirstNoticePause;
  for (int i = 1; i < tries && pause < kLongestNoticePause; ++i) pause *= 2;
  return std::min(pause, kLongestNoticePause);
}

std::string to_text(const ChannelStates& states) {
  json out = json::object();
  for (const auto& [key, state] : states) {
    if (state.owes() || !state.trouble.empty()) out[key] = to_json(state);
  }
  return out.empty() ? "" : json_text(out);
}

Result<ChannelStates> channel_states_of(const std::string& text) {
  ChannelStates states;
  if (text.empty()) return states;
  if (nests_deeper_than(text, kMostNestedJson))
    return Error{ErrorKind::Corrupt, 0, "nested too deep"};
  const json whole = json::parse(text, nullptr, false);
  if (!whole.is_object()) return Error{ErrorKind::Corrupt, 0, "not a JSON object"};
  for (const auto& [key, value] : whole.items()) {
    if (value.is_object()) states[key] = state_of(value);
  }
  return states;
}

}  // namespace pergpu
