// A daemon is known by the number in its file and by its environment, which names the folder:
// numbers of processes are used again.
#include "gpu/pool/mps_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include "gpu/foreign.h"
#include "gpu/processes.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/process/proc.h"
#include "os/test_hooks.h"
#include "run/mps_names.h"
#include "run/run_program.h"

namespace pergpu {
namespace {

constexpr char kProgram[] = "nvidia-cuda-mps-control";
constexpr char kProcessName[] =
    "nvidia-cuda-mps";  // of daemon and server: the kernel keeps 15 bytes
constexpr std::int64_t kCallPatienceNs = 5'000'000'000;  // ns, with each call of the program
constexpr int kPauseMs = 10;
constexpr std::size_t kMostText = 65536;

std::vector<std::string> environment(const std::string& folder, const std::string& gpu) {
  std::vector<std::string> env = {std::string(kMpsPipeName) + "=" + folder,
                                  std::string(kMpsLogName) + "=" + folder};
  if (!gpu.empty()) env.push_back("CUDA_VISIBLE_DEVICES=" + gpu);
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "HOME"}) {
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

std::optional<std::int32_t> number_in(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number <= 0) return std::nullopt;
  return number;
}

/// One a line; other lines are talk.
std::vector<std::int32_t> numbers_in(const std::string& text) {
  std::vector<std::int32_t> numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto number = number_in(line)) numbers.push_back(*number);
  }
  return numbers;
}

bool has_succeeded(const ProgramEnd& end) {
  const auto* exited = end.status ? std::get_if<os::Exited>(&*end.status) : nullptr;
  return exited != nullptr && exited->code == 0;
}

Error trouble(std::string what) { return Error{ErrorKind::Unavailable, 0, std::move(what)}; }

/// `is_so` within the patience.
template <typename Condition>
bool await(const Condition& is_so) {
  const std::int64_t end = os::boot_now_ns() + kCallPatienceNs;
  while (!is_so()) {
    if (os::boot_now_ns() > end) return false;
    ::poll(nullptr, 0, kPauseMs);
  }
  return true;
}

/// Processes that a daemon of this folder started.  Jobs, and shells of people, know it, too.
std::vector<pid_t> servers_left(const std::string& folder) {
  std::vector<pid_t> found;
  for (const pid_t pid : os::all_processes()) {
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    if (!stat || !stat->name.starts_with(kProcessName)) continue;
    if (os::environment_value(pid, kMpsPipeName) == folder) found.push_back(pid);
  }
  return found;
}

}  // namespace

std::string mps_folder(const std::string& root, const std::string& gpu) {
  constexpr std::size_t kTellsApart = 12;  // "GPU-5a2b77f0"
  return root + "/" + gpu.substr(0, kTellsApart);
}

std::string find_mps_control() {
  if (const char* given = os::test_hook::kMpsControl.value()) return given;
  const char* path = std::getenv("PATH");
  return find_executable(kProgram, {std::string("PATH=") + (path == nullptr ? "" : path)});
}

std::int32_t mps_daemon(const std::string& folder) {
  const Result<std::string> text = os::read_file(folder + "/" + kProgram + ".pid", kMostText);
  const std::optional<std::int32_t> pid = text ? number_in(*text) : std::nullopt;
  if (!pid || os::environment_value(*pid, kMpsPipeName) != folder) return 0;
  const std::optional<os::ProcStat> stat = os::read_stat(*pid);
  return stat && !stat->ended() ? *pid : 0;
}

Result<std::string> MpsControl::ask(const std::string& folder, const std::string& command) const {
  ProgramCall call;
  call.argv = {program_};
  call.env = environment(folder, "");
  call.input = command + "\n";
  call.limit_ns = kCallPatienceNs;
  call.most_said = kMostText;
  Result<ProgramEnd> end = run_program(call);
  if (!end) return std::move(end).error();
  if (!end->status) return trouble(fmt::format("MPS doesn't respond to `{}`", command));
  if (!has_succeeded(*end)) {
    return trouble(fmt::format("MPS rejected `{}`: {}", command, last_line(end->complaint)));
  }
  return std::move(end->output);
}

Result<void> MpsControl::launch(const std::string& folder, const std::string& gpu) const {
  constexpr std::size_t kLongestFolder = 80;  // its sockets are below it, with names of up to 20
  if (folder.size() > kLongestFolder) {
    return trouble(fmt::format("{} is too long a path for MPS sockets", folder));
  }
  if (Result<void> cleared = os::remove_tree(folder); !cleared) return cleared;
  if (Result<void> made = os::make_dirs(folder, 0700); !made) return made;
  // The daemon would keep our pipes.
  const std::string said = folder + "/start.txt";
  ProgramCall call;
  call.argv = {"/bin/sh", "-c", R"(exec "$0" -d < /dev/null > "$1" 2>&1)", program_, said};
  call.env = environment(folder, gpu);
  call.limit_ns = kCallPatienceNs;
  Result<ProgramEnd> end = run_program(call);
  if (!end) return std::move(end).error();
  if (!has_succeeded(*end)) {
    const Result<std::string> text = os::read_tail(said, kMostText);
    const std::string why = text ? std::string(last_line(*text)) : std::string();
    return trouble(fmt::format("{} -d {}{}", kProgram, end->status ? "failed" : "doesn't exit",
                               why.empty() ? "" : ": " + why));
  }
  if (!await([&] { return mps_daemon(folder) != 0; })) {
    return trouble(fmt::format("{} -d didn't start a daemon", kProgram));
  }
  return {};
}

Result<std::int32_t> MpsControl::start(const std::string& folder, const std::string& gpu) const {
  const std::int32_t there = mps_daemon(folder);
  if (there != 0) {
    const Result<std::string> servers = ask(folder, "get_server_list");
    if (servers) return there;
    // It may be about to end.
    if (!await([&] { return mps_daemon(folder) != there; })) return servers.error();
  }
  if (Result<void> launched = launch(folder, gpu); !launched) return std::move(launched).error();
  if (Result<std::string> servers = ask(folder, "get_server_list"); !servers) {
    return std::move(servers).error();
  }
  return mps_daemon(folder);
}

Result<void> MpsControl::stop(const std::string& folder) const {
  const std::int32_t daemon = mps_daemon(folder);
  if (daemon != 0) {
    const Result<std::string> asked = ask(folder, "quit");
    const bool has_gone = asked && await([&] { return mps_daemon(folder) == 0; });
    if (!has_gone && mps_daemon(folder) == daemon) {
      ::kill(daemon, SIGKILL);  // its clients end with it
    }
  }
  // A server whose daemon was killed.
  for (const pid_t pid : servers_left(folder)) ::kill(pid, SIGKILL);
  return os::remove_tree(folder);
}

Result<std::vector<MpsControl::Client>> MpsControl::clients_of(const std::string& folder,
                                                               const TreeRoots& roots) const {
  Result<std::string> servers = ask(folder, "get_server_list");
  if (!servers) return std::move(servers).error();
  std::vector<Client> found;
  for (const std::int32_t server : numbers_in(*servers)) {
    Result<std::string> clients = ask(folder, fmt::format("get_client_list {}", server));
    if (!clients) return std::move(clients).error();
    for (const std::int32_t pid : numbers_in(*clients)) {
      GpuProcess process{.pid = pid};
      gpu::describe_process(process);
      if (gpu::descends_from(process, roots)) found.push_back({server, pid});
    }
  }
  return found;
}

Result<void> MpsControl::disconnect(const std::string& folder, const TreeRoots& roots,
                                    Whom whom) const {
  Result<std::vector<Client>> clients = clients_of(folder, roots);
  if (!clients) return std::move(clients).error();
  Result<void> all;
  for (const Client& client : *clients) {
    if (whom == Whom::WouldDie && os::catches(client.pid, SIGTERM)) continue;
    Result<std::string> ended =
        ask(folder, fmt::format("terminate_client {} {}", client.server, client.pid));
    if (!ended && all) all = std::move(ended).error();  // it may have ended by itself
  }
  return all;
}

Result<bool> MpsControl::has_client(const std::string& folder, const TreeRoots& roots) const {
  Result<std::vector<Client>> clients = clients_of(folder, roots);
  if (!clients) return std::move(clients).error();
  return !clients->empty();
}

}  // namespace pergpu
