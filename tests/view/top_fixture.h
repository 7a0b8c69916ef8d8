// A machine at work, as `top` knows it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/top/top.h"
#include "view/top/top_keys.h"

namespace pergpu::view::testing {

inline constexpr std::int64_t kNow = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
inline constexpr std::int64_t kSecond = 1'000'000'000;

inline JobSnapshot job_of(std::int64_t id, const std::string& state) {
  JobSnapshot job;
  job.id = id;
  job.sweep = "thirteen";
  job.sweep_id = 3;
  job.run = "0" + std::to_string(id) + "-method=edm";
  job.index = id;
  job.step = "train";
  job.state = state;
  job.log = "/nowhere/log.txt";
  if (state == "queued") {
    job.reason = "all GPUs are in use";
    return job;
  }
  job.attempt = 1;
  job.lane = "gpu" + std::to_string(id - 1);
  job.started_at = kNow - 131 * kSecond;
  job.reason = "runs on " + *job.lane;
  if (state == "running") return job;
  job.ended_at = kNow - (100 - id) * kSecond;
  job.duration_s = 31;
  job.reason = state == "failed" ? "exit code 3" : "";
  return job;
}

inline LaneSnapshot gpu_lane(int number, const std::string& state, const std::string& why = "") {
  LaneSnapshot lane;
  lane.name = "gpu" + std::to_string(number);
  lane.uuid = "GPU-" + std::to_string(number);
  lane.state = state;
  lane.why = why;
  return lane;
}

inline GpuSnapshot gpu_of(int number) {
  GpuSnapshot gpu;
  gpu.uuid = "GPU-" + std::to_string(number);
  gpu.index = number;
  return gpu;
}

/// Two jobs run on two of three GPUs, the third is alice's; one waits, one has failed, one is done.
inline TopSnapshot at_work() {
  TopSnapshot s;
  s.known = true;
  s.now_ns = kNow;
  for (const JobSnapshot& job : {job_of(1, "running"), job_of(2, "running"), job_of(3, "queued"),
                                 job_of(4, "failed"), job_of(5, "done")}) {
    s.jobs[job.id] = job;
  }
  s.jobs[1].expected_s = 185;
  s.counts = {{"running", 2}, {"queued", 1}, {"failed", 1}, {"done", 1}};
  s.sweeps.push_back({.id = 3, .name = "thirteen", .counts = s.counts});
  s.gpus = {gpu_of(0), gpu_of(1), gpu_of(2)};
  s.gpu_lanes = {gpu_lane(0, "busy"), gpu_lane(1, "busy"),
                 gpu_lane(2, "foreign", "used by alice/python")};
  s.newest[1] = "step 100, loss 0.41";
  return s;
}

inline TopKey key(char c) {
  return {.name = TopKey::Name::Char, .code = static_cast<unsigned char>(c)};
}
inline TopKey key(TopKey::Name name) { return {.name = name}; }

/// Presses them one after the other; the last action.
inline TopAction type(TopState& state, std::string_view keys, const TopSnapshot& snapshot,
                      const TopSurface& surface = {}) {
  TopAction action;
  for (const char c : keys) {
    TopStep step = press(std::move(state), key(c), snapshot, surface);
    state = std::move(step.state);
    action = std::move(step.action);
  }
  return action;
}
inline TopAction type(TopState& state, TopKey::Name name, const TopSnapshot& snapshot,
                      const TopSurface& surface = {}) {
  TopStep step = press(std::move(state), key(name), snapshot, surface);
  state = std::move(step.state);
  return std::move(step.action);
}

inline std::vector<std::string> drawn(const TopSnapshot& snapshot, TopState state = {},
                                      const TopSurface& surface = {}) {
  settle(state, snapshot, surface);
  return draw_top(snapshot, state, surface).lines();
}

inline std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace pergpu::view::testing
