// Jobs with all that is known of them and of their attempts: what `export` and `report` are made
// of.  The caller gathers it (cli/results/history.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/snapshot.h"

namespace pergpu::view {

/// Members of an object in order, each value as JSON text: 0.1, "adam", [1,2].
using Fields = std::vector<std::pair<std::string, std::string>>;

/// Such a value for people and for CSV: a string without its quotes, all else as it is.
std::string plain_text(const std::string& json_text);

/// Mean and most of what an attempt used, by the measures of docs/telemetry.md; nullopt: not known.
struct AttemptUsage {
  struct Extent {
    double mean = 0;
    double most = 0;
    bool operator==(const Extent&) const = default;
  };
  std::optional<Extent> cores = std::nullopt;
  std::optional<Extent> resident_bytes = std::nullopt;
  std::optional<Extent> gpu_busy_percent = std::nullopt;
  std::optional<Extent> gpu_memory_bytes = std::nullopt;
  bool operator==(const AttemptUsage&) const = default;
};

/// Means over a stretch of an attempt's life; of time without a stretch nothing is known.
struct UsageStretch {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<double> cores = std::nullopt;
  std::optional<double> gpu_busy_percent = std::nullopt;
  bool operator==(const UsageStretch&) const = default;
};

/// One execution of a job.  Instants are wall-clock nanoseconds, 0: not known or not yet.
struct AttemptFacts {
  std::int64_t number = 0;
  bool live = false;     // it has not ended
  std::string cls = {};  // "ok", "exit", …; empty while it lives, and when its record is gone
  std::string reason = {};
  std::optional<std::int64_t> exit = std::nullopt;
  std::optional<std::int64_t> signal = std::nullopt;
  std::string lane = {};                // of several the first
  std::vector<std::string> lanes = {};  // all; empty in records of older versions
  std::string node = {};                // of a cluster; "": this machine
  std::vector<std::string> gpus = {};
  std::optional<std::int64_t> cpus = std::nullopt;  // its share of the cores
  std::int64_t starting_at = 0;
  std::int64_t started_at = 0;
  std::int64_t ended_at = 0;
  std::optional<double> duration_s = std::nullopt;
  std::optional<double> cpu_s = std::nullopt;  // user and system, of the whole tree
  std::optional<std::int64_t> peak_memory_bytes = std::nullopt;
  AttemptUsage usage = {};
  std::vector<UsageStretch> series = {};  // by begin; gathered for a report only
  // Which code it was:
  std::string git_commit = {};  // of the sweep's folder at its submit; "": none, or not known
  bool git_dirty = false;
  std::vector<std::pair<std::string, std::string>> files = {};  // of its command: path, hash
};

/// "ok", "exit", …; "running"; "unknown" when nothing shows it.
std::string outcome_of(const AttemptFacts& attempt);
/// All that it had; none: not known.
std::vector<std::string> lanes_of(const AttemptFacts& attempt);
/// By both clocks the same, but for one that was set meanwhile: then the duration counts.  0 when
/// the end of an attempt that does not live is not known.
std::int64_t end_of(const AttemptFacts& attempt, std::int64_t now_ns);

struct JobHistory {
  JobSnapshot job = {};
  Fields params = {};
  Fields metrics = {};                      // the newest line of its metrics file
  std::vector<std::string> needs = {};      // as in the sweep file: "train", "train:all"
  std::vector<AttemptFacts> attempts = {};  // all, by number
};

/// A line of `export --jsonl`: the fields of JobSnapshot and "schema", "params", "last_metrics",
/// "needs" and "attempts".
nlohmann::json to_json_value(const JobHistory& history);

}  // namespace pergpu::view
