// One connection of the server, and how refusals are sent.  For server*.cc only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "api/request.h"
#include "json_text.h"
#include "result.h"
#include "server/server.h"

namespace pergpu {

struct Server::Client {
  std::uint64_t id = 0;
  std::unique_ptr<os::LineStream> stream;
  bool greeted = false;
  bool gone = false;
  bool unanswered = false;  // its last request

  // A submit whose run lines are arriving.
  bool submitting = false;
  Request wants = {};  // what the runs are for: a submit, a dry run or a plan, without its sweep
  SweepSpec sweep;
  SubmitContext context;
  std::size_t runs_expected = 0;
  std::size_t run_bytes = 0;

  // A stream of changes.
  bool watching = false;
  bool beginning = false;  // the snapshot is being made; changes are sent behind it
  bool grows = false;      // jobs that come to the sweep are watched, too; it has no end
  SweepId watched_sweep;
  std::unordered_set<JobId> watched_jobs;
  std::unordered_set<JobId> open_jobs;  // of these: neither ended nor held
  std::deque<JobId> unsent;             // changed since they were sent, in order, each once
  std::unordered_set<JobId> unsent_jobs;
  std::int64_t sweep_told_ns = 0;
  bool flush_armed = false;
  std::optional<std::int64_t> told_end;  // the expected one, by the boot clock
  bool end_minded = false;

  // A stream of everything: watched_jobs are those shown, unsent_jobs the changed ones of these.
  bool watches_all = false;
  bool looks_at_devices = false;  // each second
  std::int64_t told_ns = 0;
  nlohmann::json told_sweeps;
  nlohmann::json told_devices;

  bool stopping = false;  // waits until this process has left

  // wait: answered when none of these is open any more.
  std::vector<JobId> waiting_for;
  std::unordered_set<JobId> waited_for;  // the same
  std::unordered_set<JobId> waiting_open;

  // clean: it removes the results of these, and must not lose its connection meanwhile.
  std::set<SweepId> cleaning;
};

/// How many jobs, or runs, are described in a turn of the loop.
inline constexpr std::size_t kDescribedInATurn = 200;

// Exit codes (docs/commands.md) that a refusal leads to.
inline constexpr int kUsage = 2;
inline constexpr int kUnreachable = 3;
inline constexpr int kNothingMatched = 4;

inline int code_of(const Error& error) {
  if (error.kind == ErrorKind::NotFound) return kNothingMatched;
  if (error.kind == ErrorKind::Invalid) return kUsage;
  return kUnreachable;
}

inline std::string dump(const nlohmann::json& j) { return json_text(j); }

}  // namespace pergpu
