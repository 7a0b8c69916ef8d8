// A copy in the making has its name and more (os/fs/new_name.h), so the name's begin says it all.
#include "store/copies.h"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "os/fs/file.h"

namespace pergpu::store {
namespace {

constexpr std::string_view kPrefix = "copy-";

std::vector<std::string> copies_in(const std::string& folder) {
  Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !name.starts_with(kPrefix); });
  return *std::move(names);
}

}  // namespace

Result<os::FileLock> lock_copies(const std::string& folder, std::string_view note) {
  return os::FileLock::try_lock(folder + "/store.lock", note);
}

std::string next_copy(const std::string& folder) {
  static int count = 0;
  return fmt::format("{}/{}{}-{}.db", folder, kPrefix, ::getpid(), ++count);
}

bool is_copy(const std::string& folder, const std::string& file) {
  const std::string begin = fmt::format("{}/{}", folder, kPrefix);
  return file.starts_with(begin) && file.find('/', begin.size()) == std::string::npos;
}

void remove_copies(const std::string& folder) {
  for (const std::string& name : copies_in(folder)) ::unlink((folder + "/" + name).c_str());
}

void remove_left_copies(const std::string& folder) {
  if (copies_in(folder).empty()) return;
  const Result<os::FileLock> lock = lock_copies(folder, {});
  if (lock) remove_copies(folder);
}

}  // namespace pergpu::store
