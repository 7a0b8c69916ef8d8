// attempt.json: what was executed, where, when, and how it ended (docs/jobs.md).  Of the
// environment it holds names, and values only of what pergpu or the step set.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ids.h"
#include "job/event.h"
#include "job/outcome.h"

namespace pergpu {

struct AttemptRecord {
  AttemptId id = {};
  std::string home = {};  // whose job it is; "": not known
  std::string sweep = {};
  std::string run = {};
  std::string step = {};
  std::vector<std::string> argv = {};
  std::string cwd = {};
  std::vector<std::string> env_names = {};
  std::vector<std::pair<std::string, std::string>> env_set = {};
  Placement placement = {};
  std::string git_commit = {};  // "" unknown
  bool git_dirty = false;
  std::vector<std::pair<std::string, std::string>> files = {};  // argv's files: path, hash
  std::string starting_at = {};                                 // RFC 3339 UTC; empty: not yet
  std::string started_at = {};
  std::string ended_at = {};
  std::optional<double> duration_s = std::nullopt;
  std::string state = {};  // "running", then the job's state after this attempt
  std::optional<Outcome> outcome = std::nullopt;
};

/// JSON with "schema":1, two-space indented, ending in a newline.
std::string to_json_text(const AttemptRecord& record);

/// What such a text says of the start: all but state, times of the end and outcome.  nullopt when
/// it is something else.
std::optional<AttemptRecord> attempt_record_of(const std::string& text);

}  // namespace pergpu
