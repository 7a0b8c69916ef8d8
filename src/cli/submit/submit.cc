// The sweep travels as one line and its runs as one line each, so that neither side needs the whole
// text of a million runs at once.
#include "cli/submit/submit.h"

#include <fmt/format.h>

#include "cli/client/allocation.h"
#include "cli/submit/submit_context.h"
#include "cli/term/terminal.h"
#include "plural.h"
#include "spec/sweep/wire.h"

namespace pergpu::cli {

using nlohmann::json;

namespace {

/// Where jobs run that are submitted inside an allocation of Slurm without a word about it.
struct Placed {
  std::string devices = {};
  std::string engine = {};
};

Result<Placed> placed_by(const Allocation& allocation) {
  if (allocation.nodes == 1) {
    const std::string devices = devices_of(allocation);
    if (!allocation.gpus.empty()) {
      say(fmt::format("in Slurm job {}: using GPUs {} of this machine", allocation.job, devices));
    }
    return Placed{devices, "local"};
  }
  if (!has_home_of_its_own()) {
    return Error{
        ErrorKind::Invalid, 0,
        fmt::format(
            "Slurm job {} has {} nodes, and PERGPU_HOME is set: only the allocation's own home "
            "uses its nodes. Unset PERGPU_HOME, or pass --on slurm, --devices or --lanes",
            allocation.job, allocation.nodes)};
  }
  say(fmt::format("in Slurm job {}: using its {} nodes", allocation.job, allocation.nodes));
  return Placed{"", kSlurm};
}

}  // namespace

Result<SubmitContext> context_of(const RunOptions& options, const SweepSpec& sweep) {
  Placed placed{options.devices, options.engine.empty() ? "local" : options.engine};
  const bool names_place = !options.devices.empty() || options.lanes;
  bool is_allocated = false;
  if (options.engine == kSlurm && has_home_of_its_own() && nodes_of_shell() > 1) {
    return Error{
        ErrorKind::Invalid, 0,
        fmt::format("--on slurm is not needed inside an allocation of {} nodes: pergpu uses them "
                    "by default. To use the cluster's queue, set PERGPU_HOME to another home",
                    nodes_of_shell())};
  }
  if (options.devices.empty() && options.lanes.value_or(0) == 0 && placed.engine == "local") {
    const Result<std::optional<Allocation>> allocation = allocation_here();
    if (!allocation) return allocation.error();
    if (*allocation) {
      Result<Placed> by = placed_by(**allocation);
      if (!by) return std::move(by).error();
      placed = *std::move(by);
      is_allocated = true;
    }
  }
  SubmitContext context = capture_context(sweep.folder, placed.devices);
  context.lanes = options.lanes.value_or(0);
  context.engine = placed.engine;
  if (context.engine == kSlurm) context.devices.clear();  // the shell's are not those of a node
  context.rerun = options.rerun;
  context.only_new = options.only_new;
  context.add = options.add;
  context.overrides = !options.parameters.empty();
  context.devices_given = !options.devices.empty();
  // Slurm, an allocation and a word of this time's place the sweep; else it is where it was.
  if (!names_place && !is_allocated && placed.engine != kSlurm) {
    context.inherit = {"lanes", "devices"};
    if (options.engine.empty()) context.inherit.emplace_back("on");
  }
  context.unique_name = options.has_words && options.command_line.name.empty();
  return context;
}

Result<SubmitLines> submit_lines(const char* op, const SweepSpec& sweep,
                                 const SubmitContext& context) {
  json spec = json::parse(to_wire(sweep), nullptr, false);
  if (spec.is_discarded()) {
    return Error{ErrorKind::Invalid, 0,
                 "can't submit the sweep: it contains text that is not UTF-8"};
  }
  SubmitLines lines;
  lines.request = {
      {"op", op}, {"sweep", std::move(spec)}, {"runs", sweep.runs.size()}, {"context", context}};
  lines.runs.reserve(sweep.runs.size());
  for (const RunSpec& run : sweep.runs) lines.runs.push_back(to_wire(run));
  return lines;
}

Result<SubmitReply> submit(Client& client, const SweepSpec& sweep, const SubmitContext& context) {
  Result<SubmitLines> lines = submit_lines("submit", sweep, context);
  if (!lines) return std::move(lines).error();
  Result<json> reply = client.call(lines->request, lines->runs);
  if (!reply) return std::move(reply).error();
  return reply->get<SubmitReply>();
}

std::string again_text(const SubmitReply& reply) {
  if (reply.outputs_gone == 0) return "queued again";
  return fmt::format("queued again (the outputs of {} are gone)", reply.outputs_gone);
}

std::string reply_text(const SubmitReply& reply) {
  std::string text = fmt::format("{}: {}", reply.sweep, counted(reply.jobs.size(), "job"));
  const char* gap = ": ";
  const auto add = [&](std::int64_t count, const char* what) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", gap, count, what);
    gap = ", ";
  };
  add(reply.fresh, "new");
  add(reply.requeued, again_text(reply).c_str());
  add(reply.kept, "kept");
  add(reply.dropped, "cancelled (no longer in the file)");
  if (reply.others > 0) {
    text += fmt::format("; {} of the sweep stay{}", counted(reply.others, "other"),
                        reply.others == 1 ? "s" : "");
  }
  for (std::size_t i = 0; i < reply.remembered.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "; as in the last submit: " : " ", reply.remembered[i]);
  }
  return text;
}

}  // namespace pergpu::cli
