// What Slurm's queue says, as squeue prints it.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::slurm {

/// A job, a task of an array, or those tasks of it that have not been started yet.
struct QueueRecord {
  std::int64_t job_id = 0;
  std::int64_t array_job_id = 0;
  std::vector<int> tasks = {};  // ascending; empty: no array
  bool is_cut = false;          // … there are more of them than squeue has printed
  std::string state = {};       // "PENDING", "RUNNING", …
  std::string reason = {};      // why it is pending; "None"
  std::string nodes = {};
  std::string comment = {};
  int exit_code = 0;
  int signal = 0;
  int restarts = 0;
  bool operator==(const QueueRecord&) const = default;
};

/// What parse_queue() reads: the value of squeue's --Format.
std::string queue_format();
/// ErrorKind::Corrupt with the line.
Result<std::vector<QueueRecord>> parse_queue(std::string_view text);

/// What parse_steps() reads: the value of squeue's --Format with --steps.
std::string steps_format();
/// Steps that run: `comment` is a step's name, `array_job_id` its allocation, its only task is 0.
/// ErrorKind::Corrupt with the line.
Result<std::vector<QueueRecord>> parse_steps(std::string_view text);

/// What parse_accounting() reads: the value of sacct's --format.
inline constexpr char kAccountingFormat[] = "JobID,State,ExitCode,NodeList";
/// Tasks of arrays in the accounting, without their comments; what is no task is left out.  Of the
/// reasons it knows none: what Slurm itself has cancelled is taken to have lost what it needed.
/// ErrorKind::Corrupt with the line.
Result<std::vector<QueueRecord>> parse_accounting(std::string_view text);

/// "0-3,7%2" as indices.
Result<std::vector<int>> tasks_of(std::string_view text);

/// Nothing of it will run any more.
bool is_over(std::string_view state);

struct Config {
  int max_array_size = 1001;
  int max_array_tasks = 0;  // 0: as many as the size allows
  bool has_accounting = false;
};
/// Of `scontrol show config`.
Config parse_config(std::string_view text);

}  // namespace pergpu::slurm
