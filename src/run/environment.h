// The environment of an attempt (docs/jobs.md).  Pure: captured environment in, complete one out.
//
// Precedence, low to high: captured (filtered by env_pass), defaults set where unset (thread
// variables, caches), what pergpu decides (devices, PERGPU_*), the step's `env`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ids.h"

namespace pergpu {

/// An attempt that shares its GPU by MPS.
struct MpsClient {
  std::string folder = {};         // of the daemon
  int percent = 0;                 // of the GPU's multiprocessors, at most; 0: all
  std::uint64_t memory_bytes = 0;  // of its memory, at most; 0: all
};

struct EnvironmentRequest {
  const std::vector<std::string>* captured = nullptr;  // NAME=value
  std::optional<std::vector<std::string>> env_pass = std::nullopt;
  std::vector<std::pair<std::string, std::string>> step_env = {};

  int cpus = 1;                        // k: threads where the user has set none
  std::vector<std::string> gpus = {};  // UUIDs, or NVIDIA's indices for gpu_env = "index"
  int gpu_share = 0;  // thousandths of its only GPU, beside other jobs; 0: all of each
  std::optional<MpsClient> mps = std::nullopt;
  int port = 0;  // where the processes of an attempt with several GPUs may meet; 0: nowhere
  bool hide_gpus = true;        // no GPU asked for: none is visible
  std::string cache_root = {};  // torch and triton caches where unset; "" leaves them alone

  AttemptId attempt = {};
  std::string sweep = {};
  std::string run = {};
  std::string step = {};
  std::string config = {};  // "" for once-steps
  std::string out = {};
  std::string metrics = {};
  std::string signal = {};  // "USR1": what the attempt gets ahead of its timeout; "": nothing
  std::string share = {};   // socket of the meeting place; "": there is none
  std::string home = {};    // which `pergpu` in the job asks; "": it finds its own
  std::string marker = {};  // PERGPU_ATTEMPT_ID: finds strays of a killed keeper
  std::vector<std::pair<std::string, std::string>> parameters = {};  // PERGPU_PARAM_…
};

struct JobEnvironment {
  std::vector<std::string> all = {};  // NAME=value, each name once
  /// What was set by pergpu or the step, for attempt.json.  Of the rest only names are ever shown.
  std::vector<std::pair<std::string, std::string>> set_by_us = {};
};

/// Where numerical libraries look for their number of threads: set to k where unset.
std::span<const std::string_view> thread_variables();

JobEnvironment build_environment(const EnvironmentRequest& request);

/// A captured environment, whose entries end with a NUL, as NAME=value.
std::vector<std::string> entries_of(std::string_view captured);

}  // namespace pergpu
