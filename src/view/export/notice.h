// A notification as text, and the forms in which receivers take it: JSON for a webhook and for
// hooks, Slack's JSON, ntfy's text and headers.
//
// It leaves the machine: what looks like a secret in reasons, names and parameters is hidden.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "result.h"
#include "view/model/run_rows.h"

namespace pergpu::view {

/// What is to be sent (coordinator/notice_facts.h writes it).
struct Notice {
  std::vector<std::string> events = {};  // "failure", "hold", "outage", "end", "test"
  SweepSnapshot sweep = {};              // `rows` and `runs`: of those that the table shows
  std::vector<JobSnapshot> jobs = {};    // of these rows; `index` is the row
  std::int64_t runs_left_out = 0;
  std::int64_t failures = 0;                        // since the last message
  std::vector<JobSnapshot> failed = {};             // the first of them
  std::string hold = {};                            // why pergpu held jobs
  std::string outage = {};                          // why a disk keeps jobs from starting
  std::map<std::string, std::int64_t> counts = {};  // state -> jobs of the sweep
  std::string file = {};
  std::string host = {};
  std::int64_t submitted_at = 0;  // wall clock
  std::int64_t ended_at = 0;      // 0: it has not ended
  bool has(const std::string& event) const;
};
Result<Notice> notice_of(const nlohmann::json& object);

struct Message {
  std::string title = {};  // "thirteen ended: 25 done, 1 failed"
  std::string text = {};   // lines; without the title
  std::string table = {};  // the results; the end of `text`, too
  bool is_bad = false;     // something failed or is held
};
Message message_of(const Notice& notice, const MetricsOfJobs& metrics);

/// {"schema":1,"events":[…],"title":…}: docs/notifications.md lists the fields.
nlohmann::json facts_of(const Notice& notice, const Message& message);
std::string slack_body(const Message& message);
/// Cut to what ntfy shows as a message.
std::string ntfy_text(const Message& message);
std::vector<std::string> ntfy_headers(const Message& message);

/// Variables for a hook: PERGPU_EVENTS, PERGPU_SWEEP, … (name, value).
std::vector<std::pair<std::string, std::string>> hook_variables(const Notice& notice,
                                                                const Message& message);

}  // namespace pergpu::view
