// Handing a sweep to the coordinator.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "cli/client/client.h"
#include "cli/submit/run_options.h"
#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

/// Inside an allocation of Slurm its GPUs are taken, which is said.  Fails as allocation_here().
Result<SubmitContext> context_of(const RunOptions& options, const SweepSpec& sweep);

/// The request line of op `submit` or `dry_run`, and the runs, one a line.
struct SubmitLines {
  nlohmann::json request;
  std::vector<std::string> runs;
};
Result<SubmitLines> submit_lines(const char* op, const SweepSpec& sweep,
                                 const SubmitContext& context);

/// Idempotent: the context's key makes a second try harmless.
Result<SubmitReply> submit(Client& client, const SweepSpec& sweep, const SubmitContext& context);

/// "thirteen: 26 jobs: 26 new"; what was kept, queued again or dropped where there is any.
/// "queued again (the outputs of 2 are gone)"
std::string again_text(const SubmitReply& reply);
std::string reply_text(const SubmitReply& reply);

}  // namespace pergpu::cli
