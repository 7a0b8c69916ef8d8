// First everything from /proc, which costs milliseconds, then the tools, which may take long and
// are ended one by one.
#include "run/stacks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "job/output_root.h"
#include "job/redact.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/process/child.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"
#include "run/run_program.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestText = 64 * 1024;
constexpr std::size_t kMostProcesses = 256;
constexpr std::size_t kMostThreads = 64;  // of one process
constexpr std::size_t kMostToolRuns = 16;
constexpr int kToolMs = 8'000;

class Page {
 public:
  explicit Page(os::UniqueFd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  void add(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_.get(), text.data(), text.size());
      if (n <= 0) return;  // the disk is full: what is there has to do
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  os::UniqueFd fd_;
};

/// A file of /proc, one line without its end; "" when it is not ours to read.
std::string proc_text(const std::string& path) {
  const Result<std::string> text = os::read_file(path, kLongestText);
  if (!text) return "";
  std::string out = *text;
  while (!out.empty() && (out.back() == '\n' || out.back() == '\0')) out.pop_back();
  return out;
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string command_of(pid_t pid) {
  std::vector<std::string> words;
  std::string rest = proc_text(folder_of(pid) + "/cmdline");
  for (std::size_t at = 0; !rest.empty() && at <= rest.size();) {
    const std::size_t end = std::min(rest.find('\0', at), rest.size());
    words.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  std::string out;
  for (const std::string& word : redact_words(words)) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string thread_text(const std::string& folder, const std::string& tid) {
  const std::string at = folder + "/task/" + tid;
  std::string out =
      fmt::format("  thread {} ({}): waits in {}, syscall {}\n", tid, proc_text(at + "/comm"),
                  proc_text(at + "/wchan"), proc_text(at + "/syscall"));
  const std::string stack = proc_text(at + "/stack");
  for (std::size_t i = 0; i < stack.size();) {
    const std::size_t end = std::min(stack.find('\n', i), stack.size());
    out += "    " + stack.substr(i, end - i) + "\n";
    i = end + 1;
  }
  return out;
}

std::string process_text(const os::TreeMember& member) {
  const std::string folder = folder_of(member.pid);
  std::string out = fmt::format("process {} ({}), state {}\n  {}\n", member.pid, member.name,
                                member.state, command_of(member.pid));
  const Result<std::vector<std::string>> threads = os::list_dir(folder + "/task");
  if (!threads) return out + "  has ended\n";
  for (std::size_t i = 0; i < std::min(threads->size(), kMostThreads); ++i)
    out += thread_text(folder, (*threads)[i]);
  if (threads->size() > kMostThreads)
    out += fmt::format("  and {} more threads\n", threads->size() - kMostThreads);
  return out;
}

/// Output of a tool behind what is there; ended when it takes too long.
void run_tool(Page& page, std::vector<std::string> argv) {
  page.add("\n" + argv.front().substr(argv.front().rfind('/') + 1) + ":\n");
  os::SpawnPlan plan;
  plan.argv = std::move(argv);
  plan.env = os::own_environment();
  plan.stdout_fd = plan.stderr_fd = page.fd();
  plan.parent_death_signal = SIGKILL;
  os::SpawnResult result = os::spawn(plan);
  if (std::holds_alternative<os::SpawnFailure>(result)) return page.add("could not be started\n");
  const os::Spawned& tool = std::get<os::Spawned>(result);
  pollfd end = {.fd = tool.pidfd.get(), .events = POLLIN, .revents = 0};
  if (::poll(&end, 1, kToolMs) == 0) {
    ::kill(tool.pid, SIGKILL);
    page.add("took too long\n");
  }
  (void)os::wait_for(tool.pid);
}

void add_tool_stacks(Page& page, const std::vector<os::TreeMember>& tree) {
  const std::vector<std::string> env = os::own_environment();
  const std::string py_spy = find_executable("py-spy", env);
  const std::string gdb = find_executable("gdb", env);
  std::size_t runs = 0;
  for (const os::TreeMember& member : tree) {
    const bool is_python = member.name.find("python") != std::string::npos;
    const std::string pid = std::to_string(member.pid);
    if ((is_python && !py_spy.empty()) || !gdb.empty()) {
      if (runs++ == kMostToolRuns) return page.add("\nstopped here: too many processes\n");
    }
    if (is_python && !py_spy.empty()) {
      run_tool(page, {py_spy, "dump", "--pid", pid});
    } else if (!gdb.empty()) {
      // Without the values of arguments: they may be anything, secrets too.
      run_tool(page, {gdb, "-nx", "-p", pid, "-batch", "-ex", "set print frame-arguments none",
                      "-ex", "thread apply all bt"});
    }
  }
  if (py_spy.empty()) page.add("\npy-spy is not installed: no Python stacks\n");
  if (gdb.empty()) page.add("\ngdb is not installed: no native stacks\n");
}

}  // namespace

Result<void> write_stacks(pid_t root, const std::string& path) {
  const std::vector<os::TreeMember> tree = os::descendants_of(root);
  if (tree.empty())
    return Error{ErrorKind::NotFound, 0, "no process below " + std::to_string(root)};
  const Result<os::HeldName> file = os::walk_below(output_root_of(os::parent_of(path)), path);
  if (!file) return file.error();
  const int folder = file->folder.fd();
  ::unlinkat(folder, file->name.c_str(), 0);  // never written through a link
  os::UniqueFd fd(::openat(folder, file->name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return os_error("open " + path);
  // As those may read it who may read the log.
  const Result<std::optional<struct stat>> log = file->folder.look_at("log.txt");
  const bool is_ours = log && *log && S_ISREG((*log)->st_mode) && (*log)->st_uid == ::geteuid();
  if (is_ours) (void)::fchmod(fd.get(), (*log)->st_mode & 0666);
  Page page(std::move(fd));
  for (std::size_t i = 0; i < std::min(tree.size(), kMostProcesses); ++i)
    page.add((i == 0 ? "" : "\n") + process_text(tree[i]));
  if (tree.size() > kMostProcesses)
    page.add(fmt::format("\nand {} more processes\n", tree.size() - kMostProcesses));
  add_tool_stacks(page, tree);
  return {};
}

}  // namespace pergpu
