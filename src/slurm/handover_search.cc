// A file system that is not there shows nothing, so that is not taken for an empty one.
#include "slurm/handover_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "os/fs/file.h"
#include "os/fs/written_file.h"
#include "store/end_request.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestHandover = 512u << 20;

Result<std::int64_t> noted_number(const std::string& folder) {
  const Result<std::string> text =
      os::read_written(folder + "/" + kSubmitted, os::Writer::Keeper, 64);
  if (text) return std::atoll(text->c_str());
  if (text.error().kind == ErrorKind::NotFound) return std::int64_t{0};
  return text.error();
}

/// What tasks were asked to end.
void read_end_requests(const std::vector<std::string>& names, FoundHandover& found) {
  std::set<std::int32_t> tasks;
  for (const store::HandedJob& handed : found.handover.jobs) tasks.insert(handed.task);
  for (const std::int32_t task : tasks) {
    const std::string name = store::end_request_name(task);
    if (!std::binary_search(names.begin(), names.end(), name)) continue;
    const Result<std::string> text =
        os::read_written(found.folder + "/" + name, os::Writer::Keeper, kLongestHandover);
    if (!text) continue;
    const Result<store::EndRequests> requests = store::end_requests_of(*text);
    if (!requests) continue;
    for (const store::EndRequest& request : requests->jobs) found.told_to_end.insert(request.job);
    if (requests->was_held) found.was_held.insert(task);
  }
}

/// nullopt: Slurm was not asked yet, or all that came of it is known.
Result<std::optional<FoundHandover>> read_handover(const HandoverQuestion& question,
                                                   const std::string& folder, bool takes) {
  const std::optional<FoundHandover> none;
  const std::string& from = question.from;
  FoundHandover found{.sweep = question.sweep, .folder = folder};
  const Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names && names.error().kind == ErrorKind::NotFound) return none;
  if (!names) return names.error();
  Result<std::optional<Owner>> owner = owner_of(folder);
  if (!owner) return std::move(owner).error();
  if (!*owner) return none;
  found.owner = **owner;
  found.closed = closed_tasks(*names);
  const bool is_ours = found.owner == Owner{from};
  if (found.closed.all && (question.reruns || (is_ours && !question.is_new))) return none;
  const std::string path = folder + "/" + store::kHandoverName;
  const Result<std::string> text = os::read_written(path, os::Writer::Keeper, kLongestHandover);
  if (!text && text.error().kind == ErrorKind::NotFound) return none;
  if (!text) return text.error();
  Result<store::Handover> handover = store::handover_of(*text);
  if (!handover) return Error{ErrorKind::Corrupt, 0, path + ", " + handover.error().message};
  found.handover = *std::move(handover);
  if (takes && found.owner.who != from) {
    found.owner = Owner{from, true};
    const mode_t mode = handover_mode(question.umask);
    Result<void> taken = store::write_result_file(folder, kOwner, to_text(found.owner), mode, true);
    if (!taken) return std::move(taken).error();
  }
  found.is_new_here = question.is_new || found.owner != Owner{from};
  const Result<std::int64_t> number = noted_number(folder);
  if (!number) return number.error();
  found.number = *number;
  found.withdrawn = std::binary_search(names->begin(), names->end(), kWithdrawn);
  read_end_requests(*names, found);
  for (const store::RecordName& name : store::lives_in(*names)) {
    Result<store::Life> life = store::read_life(folder, name);
    if (!life && life.error().kind != ErrorKind::NotFound) return std::move(life).error();
    if (life) found.lives.push_back(*std::move(life));
  }
  return std::optional(std::move(found));
}

}  // namespace

Result<HandoverAnswer> find_handovers(const HandoverQuestion& question) {
  HandoverAnswer out{.takes = question.takes};
  const auto is_there = [](const std::string& folder) { return os::is_directory(folder); };
  // A file system that is not mounted is no empty one.
  if (!question.is_new && !os::exists(question.root) &&
      std::none_of(question.homes.begin(), question.homes.end(), is_there)) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("{} doesn't exist; check that its file system is mounted",
                             question.homes.front())};
  }
  Result<std::string> claimant = claimant_of(question.root);
  if (!claimant) return std::move(claimant).error();
  const bool was_ours = *claimant == question.from;
  out.claimant = question.takes ? question.from : *claimant;
  if (question.takes && !was_ours) {
    Result<void> mine = claim(question.root, question.from, question.umask);
    if (!mine) return std::move(mine).error();
  }
  out.is_known = was_ours && question.is_known;
  if (out.is_known) return out;
  const Result<std::vector<std::string>> keys = os::list_dir(question.root);
  if (!keys && keys.error().kind != ErrorKind::NotFound) return keys.error();
  if (!keys) return out;
  for (const std::string& key : *keys) {
    if (key == kOwner) continue;
    const std::string folder = question.root + "/" + key;
    const bool takes = out.claimant == question.from;
    if (question.known.contains(key)) {
      const Result<std::optional<Owner>> owner = owner_of(folder);
      if (!owner) return owner.error();
      if (takes && *owner && (*owner)->who != question.from) {  // just taken away
        Result<void> back = store::write_result_file(folder, kOwner, to_text(Owner{question.from}),
                                                     handover_mode(question.umask), true);
        if (!back) return std::move(back).error();
      }
      continue;
    }
    Result<std::optional<FoundHandover>> found = read_handover(question, folder, takes);
    if (!found) return std::move(found).error();
    if (*found) out.found.push_back(**std::move(found));
  }
  return out;
}

}  // namespace pergpu
