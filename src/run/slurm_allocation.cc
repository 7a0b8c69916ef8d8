// A line of scontrol for each node: `Nodes=n0 CPU_IDs=0-3 Mem=0
// GRES=gpu:a100:2(IDX:0,3),shard:0(IDX:)`.
#include "run/slurm_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "run/slurm_queue.h"

namespace pergpu::slurm {
namespace {

/// Of `key=value` among words; nullopt: there is none.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; (at = text.find(key, at)) != std::string_view::npos; ++at) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    const std::size_t equals = at + key.size();
    if (!begins || equals >= text.size() || text[equals] != '=') continue;
    return text.substr(equals + 1, text.find_first_of(" \n", equals) - equals - 1);
  }
  return std::nullopt;
}

/// Of "gpu:a100:2(IDX:0-1,4),gpu(IDX:6)"; what is no GPU is left out.
Result<std::vector<int>> gpus_of(std::string_view gres) {
  std::vector<int> out;
  while (!gres.empty()) {
    const std::size_t open = gres.find('(');
    const std::size_t close = gres.find(')', std::min(open, gres.size()));
    const std::string_view name = gres.substr(0, gres.find_first_of(":(,"));
    if (close == std::string_view::npos) break;
    std::string_view list = gres.substr(open + 1, close - open - 1);
    if (name == "gpu" && list.starts_with("IDX:") && list.size() > 4) {
      Result<std::vector<int>> indices = tasks_of(list.substr(4));
      if (!indices) return std::move(indices).error();
      std::move(indices->begin(), indices->end(), std::back_inserter(out));
    }
    gres = gres.substr(close + 1);
    if (gres.starts_with(",")) gres.remove_prefix(1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

Result<AllocationText> parse_allocation(std::string_view text) {
  const std::optional<std::string_view> nodes = value_of(text, "NumNodes");
  if (!nodes) {
    return Error{ErrorKind::Corrupt, 0, "scontrol says nothing of the nodes of the job"};
  }
  AllocationText out{.nodes = std::atoi(std::string(*nodes).c_str())};  // "1" or "1-1"
  if (out.nodes != 1) return out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const std::optional<std::string_view> node = value_of(line, "Nodes");
    if (!node || !value_of(line, "CPU_IDs")) continue;
    out.node = std::string(*node);
    Result<std::vector<int>> gpus = gpus_of(value_of(line, "GRES").value_or(""));
    if (!gpus) return std::move(gpus).error();
    out.gpus = *std::move(gpus);
  }
  if (out.node.empty()) {
    return Error{ErrorKind::Corrupt, 0, "scontrol says nothing of the job's GPUs"};
  }
  return out;
}

std::string parse_job_state(std::string_view text) {
  return std::string(value_of(text, "JobState").value_or(""));
}

std::string parse_node_host(std::string_view text) {
  return std::string(value_of(text, "NodeHostName").value_or(""));
}

}  // namespace pergpu::slurm
