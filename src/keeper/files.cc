// A socket that has lost its name can't get one again: a new one takes its place, and connections
// to the old one go on.
#include "keeper/files.h"

#include <unistd.h>

#include <utility>

#include "keeper/protocol.h"
#include "os/ipc/socket.h"
#include "os/ipc/socket_folder.h"
#include "os/process/paths.h"

namespace pergpu::keeper {

Files::Files(Options options)
    : id_(options.id),
      run_folder_(std::move(options.run_folder)),
      listener_(std::move(options.listener)),
      notify_(std::move(options.notify)),
      notify_path_(std::move(options.notify_path)),
      home_(std::move(options.home)),
      socket_name_(socket_path(run_folder_, id_)),
      notify_name_(keeper::notify_path(run_folder_, id_)) {}

std::string Files::record() const { return record_path(run_folder_, id_); }

bool Files::restore(const std::string& folder) {
  if (!has_home()) return false;
  const std::string wanted = folder.empty() ? run_folder_ : folder;
  if (listen_in(wanted)) return true;
  const std::string last = os::run_folder_in(home_.path());
  return home_ && last != wanted && listen_in(last);
}

bool Files::listen_in(const std::string& folder) {
  const bool moves = folder != run_folder_;
  const bool has_socket = !moves && socket_name_.is_there();
  const bool has_notify = !notify_ || (!moves && notify_name_.is_there());
  if (has_socket && has_notify) return true;
  if (!os::private_folder(folder, ::geteuid())) return false;
  if (!has_socket) {
    Result<os::UniqueFd> listener = os::listen_unix(socket_path(folder, id_));
    if (!listener) return false;
    if (moves) remove();
    listener_ = *std::move(listener);
    socket_name_ = os::NamedFile(socket_path(folder, id_));
    run_folder_ = folder;
  }
  if (has_notify) return true;
  Result<os::UniqueFd> notify = os::bind_datagram(keeper::notify_path(folder, id_));
  const Result<std::string> reached = os::socket_folder(folder);
  if (!notify || !reached) return false;
  notify_ = *std::move(notify);
  notify_name_ = os::NamedFile(keeper::notify_path(folder, id_));
  notify_path_ = keeper::notify_path(*reached, id_);
  return true;
}

void Files::remove() {
  for (const os::NamedFile* name : {&socket_name_, &notify_name_}) {
    if (name->is_there()) ::unlink(name->path().c_str());
  }
}

}  // namespace pergpu::keeper
