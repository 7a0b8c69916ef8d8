// What runs on the errands' thread gets copies: this object belongs to the deciding one.
#include "gpu/pool/mps_daemons.h"

#include <csignal>
#include <utility>

#include "os/fs/file.h"
#include "os/process/proc.h"

namespace pergpu {

MpsDaemons::MpsDaemons(Errands& errands, std::string root, const std::string& program)
    : errands_(errands), root_(std::move(root)), control_(program), is_there_(!program.empty()) {}

std::string MpsDaemons::why_not() const {
  if (is_there_) return {};
  return "nvidia-cuda-mps-control isn't in PATH; it comes with the NVIDIA driver";
}

void MpsDaemons::hold(const std::string& gpu, AttemptId id,
                      std::function<void(Result<void>)> done) {
  const std::string folder = folder_of(gpu);
  daemons_[folder].holders.insert(id);
  ++pending_;
  errands_.run([this, control = control_, folder, gpu, done = std::move(done)] {
    Result<std::int32_t> pid = control.start(folder, gpu);
    return [this, folder, done, pid = std::move(pid)] {
      --pending_;
      if (pid) take_pid(folder, *pid);
      done(pid ? Result<void>() : Result<void>(pid.error()));
    };
  });
}

/// end_left() finds its process.
void MpsDaemons::adopt(const std::string& gpu, AttemptId id) {
  daemons_[folder_of(gpu)].holders.insert(id);
}

void MpsDaemons::take_pid(const std::string& folder, std::int32_t pid) {
  if (const auto it = daemons_.find(folder); it != daemons_.end()) it->second.pid = pid;
}

void MpsDaemons::release(const std::string& gpu, AttemptId id) {
  const std::string folder = folder_of(gpu);
  const auto it = daemons_.find(folder);
  if (it == daemons_.end() || it->second.holders.erase(id) == 0) return;
  if (it->second.holders.empty()) end(folder);
}

void MpsDaemons::end_left() {
  ++pending_;
  errands_.run([this, root = root_] {
    std::map<std::string, std::int32_t> found;
    const Result<std::vector<std::string>> names = os::list_dir(root);
    for (const std::string& name : names ? *names : std::vector<std::string>()) {
      const std::string folder = root + "/" + name;
      found[folder] = mps_daemon(folder);
    }
    return [this, found = std::move(found)] {
      --pending_;
      for (const auto& [folder, pid] : found) {
        Daemon& daemon = daemons_[folder];
        if (daemon.pid == 0) daemon.pid = pid;
        if (daemon.idle()) end(folder);
      }
    };
  });
}

void MpsDaemons::end(const std::string& folder) {
  ++daemons_[folder].endings;
  ++pending_;
  errands_.run([this, control = control_, folder] {
    (void)control.stop(folder);  // what is left of it the next look at its GPU shows
    return [this, folder] {
      --pending_;
      Daemon& daemon = daemons_[folder];
      --daemon.endings;
      if (daemon.idle()) daemons_.erase(folder);
    };
  });
}

void MpsDaemons::disconnect(const std::string& gpu, TreeRoots roots, MpsControl::Whom whom,
                            std::function<void(bool)> done) {
  errands_.run([control = control_, folder = folder_of(gpu), roots = std::move(roots), whom,
                done = std::move(done)] {
    const bool leads = !roots.empty() && os::catches(roots.front(), SIGTERM);
    (void)control.disconnect(folder, roots, whom);
    return std::function<void()>([done, leads] { done(leads); });
  });
}

void MpsDaemons::check(const std::string& gpu, TreeRoots roots,
                       std::function<void(std::optional<bool>)> done) {
  errands_.run([control = control_, folder = folder_of(gpu), roots = std::move(roots),
                done = std::move(done)] {
    const Result<bool> told = control.has_client(folder, roots);
    const std::optional<bool> is_client = told ? std::optional(*told) : std::nullopt;
    return std::function<void()>([done, is_client] { done(is_client); });
  });
}

std::vector<std::int32_t> MpsDaemons::pids() const {
  std::vector<std::int32_t> pids;
  for (const auto& [folder, daemon] : daemons_) {
    if (daemon.pid > 0) pids.push_back(daemon.pid);
  }
  return pids;
}

}  // namespace pergpu
