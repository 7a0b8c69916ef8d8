// The words are those that KeeperLink::start() (src/run) gives; helpers of a keeper (`--end-tree`)
// don't listen.
#include "os/process/keeper_words.h"

#include <algorithm>
#include <vector>

#include "number.h"
#include "os/fs/real_path.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

std::string word_after(const std::vector<std::string>& words, const char* name) {
  const auto at = std::find(words.begin(), words.end(), name);
  return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
}

}  // namespace

bool KeeperWords::has_home(const std::string& path) const {
  return home == path || (!home.empty() && real_path(home) == path);
}

bool KeeperWords::has_home_id(const std::string& id) const {
  return home_id.empty() || id.empty() || home_id == id;
}

std::optional<KeeperWords> keeper_words(pid_t pid) {
  const std::vector<std::string> words = arguments_of(pid);
  if (std::find(words.begin(), words.end(), "--listen-fd") == words.end()) return std::nullopt;
  return KeeperWords{.number = whole_number<std::int64_t>(word_after(words, "--id")).value_or(0),
                     .run_folder = word_after(words, "--run-dir"),
                     .home = word_after(words, "--home"),
                     .home_id = word_after(words, "--home-id")};
}

}  // namespace pergpu::os
