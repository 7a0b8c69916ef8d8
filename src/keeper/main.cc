// pergpu-keeper: started by a coordinator, not by people.
//
//   pergpu-keeper --listen-fd N [--notify-fd N --notify-path PATH] --id N --run-dir DIR
//                 --pergpu PATH --home DIR [--home-id DEVICE:INODE] [--ends-alone yes]
//                 [--group-track V:DIR] [--group-memory V:DIR] [--group-cpu V:DIR]
//   pergpu-keeper --end-tree --pid N --start-ticks N --marker TEXT --log PATH [--group DIR]…
//                 --limit-ms N
//   pergpu-keeper --end-keeper --id N --home DIR [--home-id DEVICE:INODE] --limit-ms N
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "keeper/bury.h"
#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/process/process_attributes.h"

namespace {

using pergpu::keeper::Options;

constexpr int kUsage = 2;

struct Arguments {
  Options keeper = {};
  bool end_tree = false;
  bool end_keeper = false;
  std::string home = {};     // of the keeper to end
  std::string home_id = {};  // a keeper has it for others to read (os/process/keeper_words.h)
  pergpu::os::TreeMarks marks = {};
  std::int64_t limit_ms = 10'000;
};

/// A descriptor that was inherited for us, closed again on exec.
pergpu::os::UniqueFd inherited(const char* number) {
  pergpu::os::UniqueFd fd(std::atoi(number));
  (void)::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  return fd;
}

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--end-tree") {
      out.end_tree = true;
      continue;
    }
    if (name == "--end-keeper") {
      out.end_keeper = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    if (name == "--listen-fd")
      out.keeper.files.listener = inherited(value);
    else if (name == "--notify-fd")
      out.keeper.files.notify = inherited(value);
    else if (name == "--notify-path")
      out.keeper.files.notify_path = value;
    else if (name == "--id")
      out.keeper.files.id = std::atoll(value);
    else if (name == "--run-dir")
      out.keeper.files.run_folder = value;
    else if (name == "--ends-alone")
      out.keeper.ends_alone = std::string_view(value) == "yes";
    else if (name == "--pergpu")
      out.keeper.pergpu = value;
    else if (name == "--home")
      out.home = value;
    else if (name == "--home-id")
      out.home_id = value;
    else if (name == "--group-track")
      out.keeper.groups.track = pergpu::os::cgroup_place_of(value);
    else if (name == "--group-memory")
      out.keeper.groups.memory = pergpu::os::cgroup_place_of(value);
    else if (name == "--group-cpu")
      out.keeper.groups.cpu = pergpu::os::cgroup_place_of(value);
    else if (name == "--group")
      out.marks.groups.emplace_back(value);
    else if (name == "--pid")
      out.marks.pid = std::atoi(value);
    else if (name == "--start-ticks")
      out.marks.start_ticks = std::strtoull(value, nullptr, 10);
    else if (name == "--marker")
      out.marks.marker = value;
    else if (name == "--log")
      out.marks.log_path = value;
    else if (name == "--limit-ms")
      out.limit_ms = std::atoll(value);
    else
      return false;
  }
  // Coordinators of the first release give no path: theirs was short, or there was no socket.
  pergpu::keeper::Files::Options& files = out.keeper.files;
  if (files.notify_path.empty())
    files.notify_path = pergpu::keeper::notify_path(files.run_folder, files.id);
  if (out.end_keeper) return files.id > 0 && !out.home.empty();
  files.home = out.home;
  return out.end_tree || (files.listener && files.id > 0);
}

/// Nothing but the coordinator's QUIT and its own end of work ends a keeper.
void become_hard_to_end() {
  (void)::setsid();  // fails when the starter did it
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_IGN);
  pergpu::os::raise_own_limits();
  const pergpu::os::UniqueFd oom(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (oom) (void)!::write(oom.get(), "-500", 4);  // only root may; others keep 0
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fputs("pergpu starts pergpu-keeper by itself; use `pergpu run`\n", stderr);
    return kUsage;
  }
  if (arguments.end_tree)
    return pergpu::keeper::end_tree(arguments.marks, arguments.limit_ms * 1'000'000);
  if (arguments.end_keeper)
    return pergpu::keeper::end_keeper(arguments.home, arguments.home_id, arguments.keeper.files.id,
                                      arguments.limit_ms * 1'000'000);

  become_hard_to_end();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0, 0, 0) < 0) {
    std::perror("pergpu-keeper: PR_SET_CHILD_SUBREAPER");
    return 1;
  }
#ifdef __GLIBC__  // what a large START took is given back; musl does so anyway
  ::mallopt(M_TRIM_THRESHOLD, 64 * 1024);
  ::mallopt(M_MMAP_THRESHOLD, 64 * 1024);
#endif
  return pergpu::keeper::Keeper(std::move(arguments.keeper)).run();
}
