// What is still to be sent to a channel, and when the next try is due.  Pure.
//
// News is gathered: the first failure is sent at once, later ones together, one message in a while.
// A message that did not arrive goes back to what is pending and is made again for the next try.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "result.h"

namespace pergpu {

struct NoticeDebt {
  std::int64_t failures = 0;       // jobs that failed
  std::vector<JobId> failed = {};  // the first of them, kMostNamed at most
  std::string hold = {};           // why pergpu held jobs; "": it held none
  std::string outage = {};         // which disk keeps jobs from starting, and why; "": none does
  std::int64_t ended_wall_ns = 0;  // when nothing was left to run; 0: not pending
  bool empty() const {
    return failures == 0 && hold.empty() && outage.empty() && ended_wall_ns == 0;
  }
  bool operator==(const NoticeDebt&) const = default;
};

inline constexpr std::size_t kMostNamed = 10;

void add_failure(NoticeDebt& debt, JobId job);
/// Both together, `newer` behind.
NoticeDebt joined(NoticeDebt older, const NoticeDebt& newer);
/// "2 failures and the end"
std::string to_words(const NoticeDebt& debt);

/// Instants are CLOCK_BOOTTIME; 0: never, or before this coordinator.
struct ChannelState {
  NoticeDebt owed = {};            // since the message on its way was made
  NoticeDebt sending = {};         // in the message that is on its way; empty: none is
  int tries = 0;                   // failed in a row
  std::string trouble = {};        // what the last one came to
  std::int64_t since_ns = 0;       // when the first of `owed` came
  std::int64_t last_sent_ns = 0;   // when the newest message that arrived was sent
  std::int64_t not_before_ns = 0;  // after a failed try

  bool is_sending() const { return !sending.empty(); }
  bool owes() const { return !owed.empty() || is_sending(); }
};

/// When the next message goes.  REQUIRES: something is pending and none is on its way.
std::int64_t due_ns(const ChannelState& state);

/// It arrived.
void settle_debt(ChannelState& state, std::int64_t now_ns);
/// It did not, and why: tried again later, or given up.  True: given up.
bool put_off(ChannelState& state, std::string_view why, std::int64_t now_ns);

/// Before try `tries + 1`.
std::int64_t pause_after(int tries);
/// With the pauses between them: some six hours.
inline constexpr int kMostTries = 34;

/// Of one sweep's channels, by key_of(); what no restart must lose of them, as JSON.
using ChannelStates = std::map<std::string, ChannelState>;
/// "": nothing is pending and there was no trouble.
std::string to_text(const ChannelStates& states);
Result<ChannelStates> channel_states_of(const std::string& text);

}  // namespace pergpu
