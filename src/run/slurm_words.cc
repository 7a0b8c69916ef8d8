// The reasons are those of squeue(1), "JOB REASON CODES", of Slurm 22.05.
#include "run/slurm_words.h"

#include <array>
#include <utility>

namespace pergpu::slurm {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kReasons[] = {
    {"None", "waits for Slurm to look at it"},
    {"Resources", "waits for free resources of the cluster"},
    {"Priority", "waits: jobs of higher priority are before it in Slurm's queue"},
    {"Dependency", "waits for what it needs"},
    {"DependencyNeverSatisfied", "what it needs has failed"},
    {"JobArrayTaskLimit", "waits: `max_parallel` jobs of its step run already"},
    {"JobHeldUser", "is held in Slurm by its user (`scontrol release`)"},
    {"JobHeldAdmin", "is held in Slurm by an administrator"},
    {"BeginTime",
     "waits for the time that Slurm has set; a job that is requeued waits some 2 minutes"},
    {"PartitionDown", "waits: its partition is down"},
    {"PartitionInactive", "waits: its partition is inactive"},
    {"PartitionNodeLimit", "asks for more nodes than its partition allows"},
    {"PartitionTimeLimit", "asks for more time than its partition allows"},
    {"NodeDown", "waits: a node that it needs is down"},
    {"BadConstraints", "asks for what no node has"},
    {"Licenses", "waits for a licence"},
    {"Reservation", "waits for its reservation"},
    {"InvalidAccount", "its account is not valid"},
    {"InvalidQOS", "its QOS is not valid"},
    {"QOSNotAllowed", "its QOS is not allowed there"},
    {"AssociationJobLimit", "waits: its association may have no more jobs"},
    {"AssociationResourceLimit", "waits: its association may use no more resources"},
    {"AssociationTimeLimit", "waits: its association has used up its time"},
    {"QOSJobLimit", "waits: its QOS may have no more jobs"},
    {"QOSResourceLimit", "waits: its QOS may use no more resources"},
    {"QOSTimeLimit", "waits: its QOS has used up its time"},
};

constexpr Words kStates[] = {
    {"PENDING", "waits"},
    {"CONFIGURING", "waits for its node to be made ready"},
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
    {"REQUEUED", "is requeued"},
    {"OUT_OF_MEMORY", "was out of memory"},
    {"DEADLINE", "ended at its deadline"},
    {"REVOKED", "was revoked"},
};

}  // namespace

std::string reason_words(std::string_view reason) {
  for (const auto& [name, words] : kReasons) {
    if (name == reason) return std::string(words);
  }
  if (reason.starts_with("ReqNodeNotAvail")) return "waits: nodes that it needs are not available";
  if (reason.starts_with("Nodes required for job are DOWN")) {
    return "waits: all nodes that could run it are down, drained or reserved";
  }
  if (reason.starts_with("launch failed requeued held") ||
      reason.starts_with("launch_failed_requeued_held")) {
    return "is held: Slurm could not launch it; its node may be broken";
  }
  if (reason.starts_with("Assoc") || reason.starts_with("QOS")) {
    return "waits for a limit of its " +
           std::string(reason.starts_with("QOS") ? "QOS" : "association") + " (" +
           std::string(reason) + ")";
  }
  return "waits; Slurm says: " + std::string(reason);
}

std::string state_words(std::string_view state) {
  for (const auto& [name, words] : kStates) {
    if (name == state) return std::string(words);
  }
  return std::string(state);
}

}  // namespace pergpu::slurm
