// What process trees use: read again and again, cheaply.
//
// Which processes a tree has is found by a look at all processes of the machine, which is the dear
// part: it is made for a tree that is new, and when processes were started since, but never so
// often that it takes more than a small part of a core.  A child may thus be counted some seconds
// after it was started.  Memory by proportional share (PSS) makes the kernel walk page tables: it
// is read even less often.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pergpu::os {

/// The first process of a tree.
struct TreeRoot {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  auto operator<=>(const TreeRoot&) const = default;
};

/// Counters are those of the processes there are, of children that were waited for, and of what
/// the tree's parent waited for since the tree was first read.  They may fall for a moment.
struct TreeUsage {
  int processes = 0;
  std::int64_t cpu_ns = 0;
  std::uint64_t resident_bytes = 0;
  std::optional<std::uint64_t> proportional_bytes = std::nullopt;  // nullopt: not read this time
  std::optional<std::uint64_t> read_bytes = std::nullopt;  // nullopt: not known of all processes
  std::optional<std::uint64_t> written_bytes = std::nullopt;
  bool operator==(const TreeUsage&) const = default;
};

class TreeReader {
 public:
  /// In the order of `roots`; nullopt: the first process is gone.  Trees that are not asked for are
  /// forgotten.
  std::vector<std::optional<TreeUsage>> read(const std::vector<TreeRoot>& roots);

 private:
  struct Tree {
    TreeRoot parent = {};  // waits for what the tree leaves behind (a keeper); pid 0: none
    std::int64_t parent_cpu_ns = 0;  // at the first reading
    std::optional<std::uint64_t> parent_read_bytes = std::nullopt;
    std::optional<std::uint64_t> parent_written_bytes = std::nullopt;
    std::vector<TreeRoot> members = {};  // with the first process
    std::int64_t known_since_ns = 0;
    bool is_searched = false;
    int until_proportional = 0;  // readings
    std::int64_t proportional_not_before_ns = 0;
  };
  void learn_parent(const TreeRoot& root, Tree& tree);
  bool wants_search(std::int64_t now_ns) const;
  void search(std::int64_t now_ns);
  std::optional<TreeUsage> read(const TreeRoot& root, Tree& tree, std::int64_t now_ns);
  void read_proportional(Tree& tree, TreeUsage& usage, std::int64_t now_ns);

  std::map<TreeRoot, Tree> trees_;
  std::uint64_t newest_pid_ = 0;  // at the last search
  std::int64_t searched_ns_ = 0;
  std::int64_t search_cost_ns_ = 0;
};

}  // namespace pergpu::os
