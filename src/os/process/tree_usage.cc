// Two files a process and reading: /proc/<pid>/stat and /proc/<pid>/io.
//
// A tree is what lies below the parent of its first process, a keeper, which is a sub-reaper and
// has one attempt at a time: so what has lost its own parent is still found.  When a process ends
// its counters pass to its waiting parent, that is, to a member or to the keeper.
#include "os/process/tree_usage.h"

#include <algorithm>
#include <unordered_map>

#include "os/clock.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

constexpr std::int64_t kYoungNs = 10'000'000'000;
// A search waits for this many times what the last one took: 0.5 % of a core while there are young
// trees, 0.1 % else.
constexpr std::int64_t kPauseWhileYoung = 200;
constexpr std::int64_t kPause = 1000;
constexpr std::int64_t kShortestPauseNs = 5'000'000'000;
constexpr int kReadingsAProportional = 10;
constexpr std::int64_t kProportionalPause = 2000;  // 0.05 % of a core for each tree
constexpr std::size_t kMostMembers = 4096;

}  // namespace

std::vector<std::optional<TreeUsage>> TreeReader::read(const std::vector<TreeRoot>& roots) {
  const std::int64_t now_ns = boot_now_ns();
  std::erase_if(trees_, [&](const auto& entry) {
    return std::find(roots.begin(), roots.end(), entry.first) == roots.end();
  });
  for (const TreeRoot& root : roots) {
    const auto [it, is_new] = trees_.try_emplace(root);
    if (!is_new) continue;
    it->second.known_since_ns = now_ns;
    it->second.members = {root};
    learn_parent(root, it->second);
  }
  if (wants_search(now_ns)) search(now_ns);
  std::vector<std::optional<TreeUsage>> out;
  for (const TreeRoot& root : roots) out.push_back(read(root, trees_.at(root), now_ns));
  return out;
}

void TreeReader::learn_parent(const TreeRoot& root, Tree& tree) {
  const std::optional<ProcStat> first = read_stat(root.pid);
  if (!first || first->start_ticks != root.start_ticks || first->parent <= 1) return;
  const std::optional<ProcStat> parent = read_stat(first->parent);
  if (!parent) return;
  tree.parent = {parent->pid, parent->start_ticks};
  tree.parent_cpu_ns = parent->cpu_ns;
  if (const std::optional<DiskBytes> bytes = disk_bytes(parent->pid)) {
    tree.parent_read_bytes = bytes->read;
    tree.parent_written_bytes = bytes->written;
  }
}

bool TreeReader::wants_search(std::int64_t now_ns) const {
  bool is_new = false;
  bool is_young = false;
  for (const auto& [root, tree] : trees_) {
    is_new = is_new || !tree.is_searched;
    is_young = is_young || now_ns - tree.known_since_ns < kYoungNs;
  }
  const std::int64_t since = now_ns - searched_ns_;
  if (is_new || is_young) {
    if (since < kPauseWhileYoung * search_cost_ns_) return false;
  } else if (since < std::max(kShortestPauseNs, kPause * search_cost_ns_)) {
    return false;
  }
  if (trees_.empty()) return false;
  const std::uint64_t newest = newest_pid();
  return is_new || newest == 0 || newest != newest_pid_;
}

/// Everything below the parents of the trees.
void TreeReader::search(std::int64_t now_ns) {
  const std::int64_t before_ns = own_cpu_ns();
  newest_pid_ = newest_pid();
  std::unordered_multimap<pid_t, TreeRoot> children;
  for (const pid_t pid : all_processes()) {
    const std::optional<ProcStat> stat = read_stat(pid);
    if (stat && !stat->is_kernel_thread) {
      children.emplace(stat->parent, TreeRoot{pid, stat->start_ticks});
    }
  }
  for (auto& [root, tree] : trees_) {
    tree.is_searched = true;
    std::vector<TreeRoot> found = {root};
    if (tree.parent.pid != 0) {
      const auto [first, last] = children.equal_range(tree.parent.pid);
      for (auto it = first; it != last; ++it) {
        if (it->second != root) found.push_back(it->second);
      }
    }
    for (std::size_t i = 0; i < found.size() && found.size() < kMostMembers; ++i) {
      const auto [first, last] = children.equal_range(found[i].pid);
      for (auto it = first; it != last; ++it) found.push_back(it->second);
    }
    tree.members = std::move(found);
  }
  searched_ns_ = now_ns;
  search_cost_ns_ = own_cpu_ns() - before_ns;
}

std::optional<TreeUsage> TreeReader::read(const TreeRoot& root, Tree& tree, std::int64_t now_ns) {
  TreeUsage usage{.read_bytes = 0, .written_bytes = 0};
  std::vector<TreeRoot> there;
  const auto add_bytes = [&](const std::optional<DiskBytes>& bytes) {
    if (!bytes) usage.read_bytes = usage.written_bytes = std::nullopt;
    if (!usage.read_bytes) return;
    *usage.read_bytes += bytes->read;
    *usage.written_bytes += bytes->written;
  };
  bool first_is_there = false;
  for (const TreeRoot& member : tree.members) {
    const std::optional<ProcStat> stat = read_stat(member.pid);
    if (!stat || stat->start_ticks != member.start_ticks) continue;
    first_is_there = first_is_there || member == root;
    there.push_back(member);
    usage.cpu_ns += stat->cpu_ns;
    if (stat->ended()) continue;  // its memory is gone, and its file of bytes cannot be read
    const std::optional<DiskBytes> bytes = disk_bytes(member.pid);
    if (!bytes && !is_alive(member.pid, member.start_ticks)) continue;  // it has just ended
    ++usage.processes;
    usage.resident_bytes += stat->resident_bytes;
    add_bytes(bytes);
  }
  tree.members = std::move(there);
  if (!first_is_there) return std::nullopt;
  if (tree.parent.pid != 0) {
    const std::optional<ProcStat> parent = read_stat(tree.parent.pid);
    const bool is_same = parent && parent->start_ticks == tree.parent.start_ticks;
    if (is_same) usage.cpu_ns += parent->cpu_ns - tree.parent_cpu_ns;
    const std::optional<DiskBytes> bytes =
        is_same && tree.parent_read_bytes ? disk_bytes(tree.parent.pid) : std::nullopt;
    if (bytes && usage.read_bytes) {
      *usage.read_bytes += bytes->read - *tree.parent_read_bytes;
      *usage.written_bytes += bytes->written - *tree.parent_written_bytes;
    }
  }
  if (--tree.until_proportional <= 0 && now_ns >= tree.proportional_not_before_ns) {
    read_proportional(tree, usage, now_ns);
  }
  return usage;
}

void TreeReader::read_proportional(Tree& tree, TreeUsage& usage, std::int64_t now_ns) {
  const std::int64_t before_ns = own_cpu_ns();
  std::uint64_t sum = 0;
  bool all_told = true;
  for (const TreeRoot& member : tree.members) {
    const std::optional<std::uint64_t> bytes = told_proportional_bytes(member.pid);
    if (bytes) {
      sum += *bytes;
    } else if (is_alive(member.pid, member.start_ticks)) {
      all_told = false;
      break;
    }
  }
  if (all_told) usage.proportional_bytes = sum;
  tree.until_proportional = kReadingsAProportional;
  tree.proportional_not_before_ns = now_ns + kProportionalPause * (own_cpu_ns() - before_ns);
}

}  // namespace pergpu::os
