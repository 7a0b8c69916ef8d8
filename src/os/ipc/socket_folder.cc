// A link is named by the hash of what it leads to, so all who want it agree without a lock: the
// first symlink(2) makes it, the others find it.
#include "os/ipc/socket_folder.h"

#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "os/fs/file.h"
#include "os/process/paths.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestPath = sizeof(sockaddr_un{}.sun_path) - 1;

std::string target_of(const std::string& link) {
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::read_symlink(link, failed);
  return failed ? std::string() : target.string();
}

void remove_dangling(const std::string& folder) {
  const Result<std::vector<std::string>> names = list_dir(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string link = folder + "/" + name;
    const std::string target = target_of(link);
    if (!target.empty() && !exists(target)) ::unlink(link.c_str());
  }
}

Result<std::string> link_in(const std::string& place, const std::string& folder, std::size_t room) {
  Result<void> ready = private_folder(place, ::getuid());
  if (!ready) return std::move(ready).error();
  std::string link = place + "/" + name_hash(folder);
  if (link.size() + 1 + room > kLongestPath)
    return Error{ErrorKind::Invalid, ENAMETOOLONG, link + " is too long as well"};
  if (target_of(link) == folder) return link;
  remove_dangling(place);
  if (::symlink(folder.c_str(), link.c_str()) == 0 || target_of(link) == folder) return link;
  return os_error("link " + link);
}

}  // namespace

std::vector<std::string> link_folders() {
  const std::string name = "pergpu-sockets-" + std::to_string(::getuid());
  std::vector<std::string> folders = {"/tmp/" + name, "/var/tmp/" + name};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') folders.push_back(runtime + ("/" + name));
  return folders;
}

Result<std::string> socket_folder(const std::string& folder, std::size_t room,
                                  const std::vector<std::string>& link_folders) {
  if (folder.size() + 1 + room <= kLongestPath) return folder;
  std::string why;
  for (const std::string& place : link_folders) {
    Result<std::string> link = link_in(place, folder, room);
    if (link) return link;
    why += (why.empty() ? "" : "; ") + link.error().message;
  }
  return Error{ErrorKind::Denied, 0,
               folder +
                   " is too long a path for sockets, and pergpu can't create a short link to it (" +
                   why + "); set PERGPU_HOME to a shorter path"};
}

Result<std::string> socket_folder(const std::string& folder, std::size_t room) {
  return socket_folder(folder, room, link_folders());
}

}  // namespace pergpu::os
