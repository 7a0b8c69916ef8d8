// Only what is not there means nothing: what cannot be read is said.
#include "slurm/handover_news.h"

#include <algorithm>

#include "os/fs/file.h"
#include "os/fs/written_file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestPresent = 1u << 20;

/// The lives in the folder behind what was read of each task.
Result<std::vector<store::Life>> lives_behind(const WatchedHandover& handover,
                                              const std::vector<std::string>& names) {
  const auto is_there = [&](store::RecordName name) {
    return std::binary_search(names.begin(), names.end(), to_string(name));
  };
  std::vector<store::Life> out;
  for (const store::RecordName& life : store::lives_in(names)) {
    const auto known = handover.read.find(life.task);
    if (known == handover.read.end() || life.life < known->second.life) continue;
    const bool goes_on = life.life == known->second.life;
    if (goes_on && known->second.part == kAllParts) continue;
    const store::RecordName after = goes_on ? known->second : life;
    if (!is_there(life) && !is_there({after.task, after.life, after.part + 1})) continue;
    Result<store::Life> news = store::read_life(handover.folder, after);
    if (news) {
      out.push_back(*std::move(news));
    } else if (news.error().kind != ErrorKind::NotFound) {
      return std::move(news).error();
    }
  }
  return out;
}

}  // namespace

HandoverNews news_of(const WatchedHandover& handover, bool sees) {
  HandoverNews out{.key = handover.key};
  const Result<std::vector<std::string>> names = os::list_dir(handover.folder);
  if (!names) {
    const bool was_removed =
        names.error().kind == ErrorKind::NotFound && os::is_directory(handover.home);
    if (!was_removed) out.unread = names.error().message;
    return out;
  }
  const Result<std::optional<Owner>> owner = owner_of(handover.folder);
  if (!owner) out.unread = owner.error().message;
  if (owner && *owner) out.owner = (*owner)->who;
  out.closed = closed_tasks(*names);
  if (handover.is_step) {
    const Result<os::FileIdentity> said = os::file_identity(handover.folder + "/task-0.txt");
    out.is_silent = !said || said->size == 0;
  }
  for (const auto& [index, read] : handover.read) {
    const std::string name = store::present_name(index);
    if (!sees || !std::binary_search(names->begin(), names->end(), name)) continue;
    const Result<std::string> text =
        os::read_written(handover.folder + "/" + name, os::Writer::Keeper, kLongestPresent);
    Result<std::vector<store::Present>> told =
        text ? store::present_of(*text) : Result<std::vector<store::Present>>(text.error());
    if (told) out.present.emplace_back(index, *std::move(told));
  }
  Result<std::vector<store::Life>> lives = lives_behind(handover, *names);
  if (lives) {
    out.lives = *std::move(lives);
  } else {
    out.unread = lives.error().message;
  }
  return out;
}

}  // namespace pergpu
