// A line of scontrol for each node, or for several that have the same:
// `Nodes=n[0-1] CPU_IDs=0-3 Mem=0 GRES=gpu:a100:2(IDX:0,3),shard:0(IDX:)`.
#include "slurm/slurm_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "number.h"
#include "slurm/slurm_queue.h"

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

/// "08-10" as "08", "09", "10".
bool add_range(std::string_view range, std::vector<std::string>& out) {
  constexpr int kMost = 100'000;
  const std::size_t dash = std::min(range.find('-'), range.size());
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == range.size() ? first : range.substr(dash + 1);
  const std::optional<int> from = whole_number<int>(first);
  const std::optional<int> to = whole_number<int>(last);
  if (!from || !to || *from < 0 || *to < *from || *to - *from > kMost) return false;
  for (int number = *from; number <= *to; ++number) {
    out.push_back(fmt::format("{:0{}}", number, first.size()));
  }
  return out.size() <= kMost;
}

/// Of one name with at most one pair of brackets.
bool add_hosts(std::string_view name, std::vector<std::string>& out) {
  const std::size_t open = name.find('[');
  if (name.empty()) return false;
  if (open == std::string_view::npos) {
    out.emplace_back(name);
    return name.find(']') == std::string_view::npos;
  }
  const std::size_t close = name.find(']', open);
  if (close == std::string_view::npos) return false;
  const std::string_view rest = name.substr(close + 1);
  if (rest.find_first_of("[]") != std::string_view::npos) return false;
  std::vector<std::string> numbers;
  std::string_view list = name.substr(open + 1, close - open - 1);
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = list.find(',');
    if (!add_range(list.substr(0, comma), numbers)) return false;
    if (comma != std::string_view::npos) list = list.substr(comma + 1);
  }
  for (const std::string& number : numbers) {
    out.push_back(fmt::format("{}{}{}", name.substr(0, open), number, rest));
  }
  return true;
}

}  // namespace

Result<std::vector<std::string>> hosts_of(std::string_view text) {
  std::vector<std::string> out;
  const Error wrong{ErrorKind::Corrupt, 0, fmt::format("`{}` isn't a list of nodes", text)};
  while (!text.empty()) {
    std::size_t end = 0;
    for (bool inside = false; end < text.size() && (inside || text[end] != ','); ++end) {
      if (text[end] == '[') inside = true;
      if (text[end] == ']') inside = false;
    }
    if (!add_hosts(text.substr(0, end), out)) return wrong;
    text = text.substr(std::min(end + 1, text.size()));
  }
  if (out.empty()) return wrong;
  return out;
}

Result<std::vector<AllocationNode>> parse_allocation(std::string_view text) {
  constexpr std::uint64_t kMiB = 1u << 20;
  std::vector<AllocationNode> out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const std::optional<std::string_view> nodes = value_of(line, "Nodes");
    const std::optional<std::string_view> cpus = value_of(line, "CPU_IDs");
    if (!nodes || !cpus) continue;
    const Result<std::vector<std::string>> names = hosts_of(*nodes);
    if (!names) return names.error();
    const Result<std::vector<int>> cores = tasks_of(*cpus);
    if (!cores) return cores.error();
    Result<std::vector<int>> gpus = gpus_of(value_of(line, "GRES").value_or(""));
    if (!gpus) return std::move(gpus).error();
    const std::string memory(value_of(line, "Mem").value_or("0"));
    for (const std::string& name : *names) {
      out.push_back({.name = name,
                     .gpus = *gpus,
                     .cpus = static_cast<int>(cores->size()),
                     .memory_bytes = std::strtoull(memory.c_str(), nullptr, 10) * kMiB});
    }
  }
  if (out.empty()) {
    return Error{ErrorKind::Corrupt, 0, "scontrol doesn't report the nodes of the job"};
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
