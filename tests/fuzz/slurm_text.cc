// What Slurm's programs print.  The first byte says which of them it is.
#include <algorithm>

#include "fuzz.h"
#include "job/text.h"
#include "slurm/slurm_allocation.h"
#include "slurm/slurm_queue.h"
#include "slurm/slurm_script.h"
#include "slurm/slurm_words.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  const std::uint8_t which = input.byte();
  const std::string_view text = input.rest();
  if (which % 4 == 0) {
    const Result<std::vector<slurm::QueueRecord>> queue = slurm::parse_queue(text);
    if (!queue) {
      fuzz::check(queue.error().kind == ErrorKind::Corrupt, "a line that makes no sense is damage");
      return 0;
    }
    for (const slurm::QueueRecord& record : *queue) {
      fuzz::check(std::is_sorted(record.tasks.begin(), record.tasks.end()), "tasks ascend");
      (void)slurm::reason_words(record.reason);
      fuzz::check(record.state.empty() || !slurm::state_words(record.state).empty(),
                  "every state has words");
    }
  } else if (which % 4 == 1) {
    const Result<std::vector<slurm::AllocationNode>> nodes = slurm::parse_allocation(text);
    (void)slurm::hosts_of(text.substr(0, 64));
    (void)slurm::parse_steps(text);
    if (!nodes) return 0;
    for (const slurm::AllocationNode& node : *nodes) {
      fuzz::check(!node.name.empty() && node.cpus >= 0, "a node has a name");
      fuzz::check(std::is_sorted(node.gpus.begin(), node.gpus.end()), "GPUs ascend");
    }
  } else if (which % 4 == 2) {
    const Result<std::vector<int>> tasks = slurm::tasks_of(text.substr(0, 64));
    if (!tasks || tasks->empty() || tasks->size() > 100'000) return 0;
    std::vector<int> once = *tasks;
    once.erase(std::unique(once.begin(), once.end()), once.end());
    const Result<std::vector<int>> again = slurm::tasks_of(ranges_text(once));
    fuzz::check(again && *again == once, "ranges written are the ranges read");
  } else {
    fuzz::check(slurm::parse_config(text).max_array_size > 0, "arrays have a size");
    (void)slurm::parse_node_host(text);
    (void)slurm::parse_accounting(text);
    (void)slurm::parse_job_state(text);
  }
  return 0;
}
