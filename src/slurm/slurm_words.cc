// The reasons are those of squeue(1), "JOB REASON CODES", of Slurm 22.05.
#include "slurm/slurm_words.h"

#include <array>
#include <utility>

namespace pergpu::slurm {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kReasons[] = {
    {"None", "waits for Slurm to consider it"},
    {"Resources", "waits for free resources of the cluster"},
    {"Priority", "waits: jobs with higher priority are ahead of it in Slurm's queue"},
    {"Dependency", "waits for the jobs it needs"},
    {"DependencyNeverSatisfied", "a job it needs has failed"},
    {"JobArrayTaskLimit", "waits: `max_parallel` jobs of its step are already running"},
    {"JobHeldUser", "is held in Slurm by its user (`scontrol release`)"},
    {"JobHeldAdmin", "is held in Slurm by an administrator"},
    {"BeginTime",
     "waits for the start time that Slurm has set; a requeued job waits about 2 minutes"},
    {"PartitionDown", "waits: its partition is down"},
    {"PartitionInactive", "waits: its partition is inactive"},
    {"PartitionNodeLimit", "asks for more nodes than its partition allows"},
    {"PartitionTimeLimit", "asks for more time than its partition allows"},
    {"NodeDown", "waits: a node it needs is down"},
    {"BadConstraints", "asks for more than any node has"},
    {"Licenses", "waits for a license"},
    {"Reservation", "waits for its reservation"},
    {"InvalidAccount", "its account isn't valid"},
    {"InvalidQOS", "its QOS isn't valid"},
    {"QOSNotAllowed", "its QOS isn't allowed there"},
    {"AssociationJobLimit", "waits: its association has reached its job limit"},
    {"AssociationResourceLimit", "waits: its association has reached its resource limit"},
    {"AssociationTimeLimit", "waits: its association has used up its time limit"},
    {"QOSJobLimit", "waits: its QOS has reached its job limit"},
    {"QOSResourceLimit", "waits: its QOS has reached its resource limit"},
    {"QOSTimeLimit", "waits: its QOS has used up its time limit"},
};

constexpr Words kStates[] = {
    {"PENDING", "waits"},
    {"CONFIGURING", "waits for its node to be configured"},
    {"RUNNING", "runs"},
    {"COMPLETING", "is ending"},
    {"COMPLETED", "has ended"},
    {"CANCELLED", "was cancelled"},
    {"FAILED", "failed"},
    {"TIMEOUT", "reached its time limit"},
    {"NODE_FAIL", "its node failed"},
    {"BOOT_FAIL", "its node did not come up"},
    {"PREEMPTED", "was preempted"},
    {"SUSPENDED", "is suspended"},
    {"REQUEUED", "was requeued"},
    {"OUT_OF_MEMORY", "ran out of memory"},
    {"DEADLINE", "ended at its deadline"},
    {"REVOKED", "was revoked"},
};

}  // namespace

std::string reason_words(std::string_view reason) {
  for (const auto& [name, words] : kReasons) {
    if (name == reason) return std::string(words);
  }
  if (reason.starts_with("ReqNodeNotAvail")) return "waits: nodes it needs aren't available";
  if (reason.starts_with("Nodes required for job are DOWN")) {
    return "waits: all nodes that could run it are down, drained or reserved";
  }
  if (reason.starts_with("launch failed requeued held") ||
      reason.starts_with("launch_failed_requeued_held")) {
    return "is held: Slurm couldn't launch it; its node may be broken";
  }
  if (reason.starts_with("Assoc") || reason.starts_with("QOS")) {
    return "waits for a limit of its " +
           std::string(reason.starts_with("QOS") ? "QOS" : "association") + " (" +
           std::string(reason) + ")";
  }
  return "waits; Slurm says: " + std::string(reason);
}

std::string no_configuration(std::string_view complaint) {
  const std::size_t found = complaint.find("Could not establish a configuration source");
  if (found == std::string_view::npos) return "";
  const std::size_t newline = complaint.rfind('\n', found);
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const std::string_view line = complaint.substr(begin, complaint.find('\n', found) - begin);
  return std::string(kNoConfiguration) + "; " + std::string(line);
}

std::string state_words(std::string_view state) {
  for (const auto& [name, words] : kStates) {
    if (name == state) return std::string(words);
  }
  return std::string(state);
}

}  // namespace pergpu::slurm
