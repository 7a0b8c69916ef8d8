// A keeper has ended when its pidfd says so, or, where there is none, when its socket has no
// listener.  A connection that closes proves nothing: want of memory or of descriptors breaks it,
// too.
#include "run/keeper_link.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/ipc/socket_folder.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/proc.h"
#include "os/process/spawn.h"

namespace pergpu {
namespace {

constexpr int kListenFd = 3;
constexpr int kNotifyFd = 4;

}  // namespace

Result<std::unique_ptr<KeeperLink>> KeeperLink::start(os::Loop& loop, const KeeperSite& site,
                                                      KeeperId id, Callbacks callbacks) {
  const std::string socket = keeper::socket_path(site.run_dir, id.value);
  const std::string notify = keeper::notify_path(site.run_dir, id.value);
  Result<os::UniqueFd> listener = os::listen_unix(socket);
  if (!listener) return std::move(listener).error();
  const Result<std::string> short_folder = os::socket_folder(site.run_dir);
  if (!short_folder) return short_folder.error();
  ::unlink(notify.c_str());
  Result<os::UniqueFd> notify_socket = os::bind_datagram(notify);
  if (!notify_socket) return std::move(notify_socket).error();

  os::SpawnPlan plan;
  plan.argv = {site.keeper_program,
               "--listen-fd",
               std::to_string(kListenFd),
               "--notify-fd",
               std::to_string(kNotifyFd),
               "--notify-path",
               keeper::notify_path(*short_folder, id.value),
               "--id",
               std::to_string(id.value),
               "--run-dir",
               site.run_dir,
               "--pergpu",
               site.pergpu_program,
               "--home",
               site.home};
  if (!site.home_id.empty()) plan.argv.insert(plan.argv.end(), {"--home-id", site.home_id});
  if (site.keepers_end_alone) plan.argv.insert(plan.argv.end(), {"--ends-alone", "yes"});
  const auto add_place = [&](const char* name, const os::CgroupPlace& place) {
    if (place) plan.argv.insert(plan.argv.end(), {name, os::to_text(place)});
  };
  add_place("--group-track", site.groups.track);
  add_place("--group-memory", site.groups.memory);
  add_place("--group-cpu", site.groups.cpu);
  plan.env = os::environment_for_home(site.home);
  plan.cwd = "/";
  plan.new_session = true;
  plan.fds = {{.fd = listener->get(), .as = kListenFd},
              {.fd = notify_socket->get(), .as = kNotifyFd}};
  // Connected before it runs: nothing after the spawn can fail and leave one that is not watched.
  std::unique_ptr<KeeperLink> link(new KeeperLink(loop, id, std::move(callbacks)));
  const Result<void> connected = link->reconnect(site);
  if (!connected) {
    remove_keeper_sockets(site.run_dir, id);
    return connected.error();
  }
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    remove_keeper_sockets(site.run_dir, id);
    return os_error("start " + site.keeper_program + ": " + failure->phase, failure->os_errno);
  }
  os::Spawned spawned = std::get<os::Spawned>(std::move(result));
  link->pid_ = spawned.pid;
  link->is_child_ = true;
  link->watch_end(std::move(spawned.pidfd));
  return link;
}

Result<std::unique_ptr<KeeperLink>> KeeperLink::find(os::Loop& loop, const KeeperSite& site,
                                                     KeeperId id, Callbacks callbacks,
                                                     const std::string& born_in) {
  std::unique_ptr<KeeperLink> link(new KeeperLink(loop, id, std::move(callbacks)));
  link->folder_ = born_in;
  const Result<void> connected = link->reconnect(site);
  if (!connected) return connected.error();
  return link;
}

KeeperLink::~KeeperLink() {
  if (pidfd_) loop_.unwatch(pidfd_.get());
}

Result<void> KeeperLink::reconnect(const KeeperSite& site) {
  std::vector<std::string> folders = {site.run_dir};
  for (const std::string& other : {folder_, os::run_folder_in(site.home)}) {
    if (!other.empty() && other != site.run_dir) folders.push_back(other);
  }
  Error why;
  for (const std::string& folder : folders) {
    Result<os::UniqueFd> connected =
        os::connect_unix(keeper::socket_path(folder, id_.value), /*nonblocking=*/true);
    if (connected) {
      folder_ = folder;
      return open(*std::move(connected));
    }
    // That there is no listener is certain when it is so everywhere.
    if (why.message.empty() || nobody_listens(why)) why = std::move(connected).error();
  }
  return why;
}

bool KeeperLink::is_alive() const {
  return pidfd_ ? !os::has_ended(pidfd_) : pid_ != 0 && os::is_alive(pid_, start_ticks_);
}

bool nobody_listens(const Error& error) {
  return error.os_errno == ENOENT || error.os_errno == ECONNREFUSED;
}

Result<void> KeeperLink::open(os::UniqueFd socket) {
  os::FrameStream::Callbacks on = {
      .on_frame = [this](os::FrameStream::Frame frame) { callbacks_.on_frame(std::move(frame)); },
      .on_close = [this](const Error& why) { break_off(why.message); }};
  Result<std::unique_ptr<os::FrameStream>> stream =
      os::FrameStream::open(loop_, std::move(socket), std::move(on), keeper::kLongestPayload);
  if (!stream) return std::move(stream).error();
  stream_ = *std::move(stream);
  return {};
}

void KeeperLink::know(std::int32_t pid, std::uint64_t start_ticks) {
  if (pidfd_) return;
  pid_ = pid;
  start_ticks_ = start_ticks;
  Result<os::UniqueFd> pidfd = os::open_handle(pid);
  if (pidfd && os::is_alive(pid, start_ticks)) watch_end(*std::move(pidfd));
}

void KeeperLink::watch_end(os::UniqueFd pidfd) {
  pidfd_ = std::move(pidfd);
  const Result<void> watched =
      loop_.watch(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { on_process_ended(); });
  if (!watched) pidfd_.reset();
}

void KeeperLink::break_off(const std::string& why) {
  stream_.reset();
  const auto on_broken = callbacks_.on_broken;  // survives our end
  if (on_broken) on_broken(why);
}

void KeeperLink::end_unreachable() {
  stream_.reset();
  if (pid_ != 0) know(pid_, start_ticks_);  // it could not be watched before
  if (!pidfd_) return gone("its keeper exited");
  if (!os::has_ended(pidfd_)) (void)os::send_signal(pidfd_, SIGKILL);
}

void KeeperLink::on_process_ended() {
  std::string why = "its keeper exited";
  if (is_child_) {
    const std::optional<os::Reaped> reaped = os::reap(pid_);
    const auto* by_signal = reaped ? std::get_if<os::Signaled>(&reaped->status) : nullptr;
    if (by_signal != nullptr)
      why = "its keeper was killed by signal " + std::to_string(by_signal->signal);
  }
  gone(why);
}

void KeeperLink::gone(const std::string& why) {
  if (pidfd_) loop_.unwatch(pidfd_.get());
  pidfd_.reset();
  callbacks_.on_broken = nullptr;
  const auto on_gone = std::move(callbacks_.on_gone);  // survives our end
  callbacks_.on_gone = nullptr;
  if (on_gone) on_gone(why);
}

void remove_keeper_sockets(const std::string& run_dir, KeeperId id) {
  ::unlink(keeper::socket_path(run_dir, id.value).c_str());
  ::unlink(keeper::notify_path(run_dir, id.value).c_str());
}

}  // namespace pergpu
