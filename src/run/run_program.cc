// Output comes by pipes, so that a program that writes without end costs no memory: what is beyond
// the first bytes is read and dropped.
#include "run/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/unnamed_file.h"
#include "os/process/spawn.h"

namespace pergpu {
namespace {

struct Pipe {
  os::UniqueFd read = {};
  os::UniqueFd write = {};
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) < 0) return os_error("pipe");
  Pipe pipe{os::UniqueFd(fds[0]), os::UniqueFd(fds[1])};
  if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) < 0) return os_error("fcntl");
  return pipe;
}

/// What is there now, and not forever where a process goes on writing; false at its end.
bool read_on(int fd, std::string& kept, std::size_t most) {
  constexpr int kMostPieces = 16;
  std::array<char, 65536> piece;
  for (int i = 0; i < kMostPieces; ++i) {
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    const std::size_t room = most - std::min(most, kept.size());
    kept.append(piece.data(), std::min(room, static_cast<std::size_t>(n)));
    if (static_cast<std::size_t>(n) < piece.size()) return true;
  }
  return true;
}

/// Until it has ended; false: the limit came first.
bool await(const os::Spawned& program, const Pipe& out, const Pipe& err, std::int64_t end_ns,
           std::size_t most, ProgramEnd& end) {
  std::array<pollfd, 3> watched = {
      {{program.pidfd.get(), POLLIN, 0}, {out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
  for (;;) {
    const std::int64_t left_ms = (end_ns - os::boot_now_ns() + 999'999) / 1'000'000;
    if (left_ms <= 0) return false;
    const int wait = static_cast<int>(std::min<std::int64_t>(left_ms, 3'600'000));
    if (::poll(watched.data(), watched.size(), wait) <= 0) continue;
    if (watched[1].revents != 0 && !read_on(out.read.get(), end.output, most)) watched[1].fd = -1;
    if (watched[2].revents != 0 && !read_on(err.read.get(), end.complaint, most))
      watched[2].fd = -1;
    if (watched[0].revents != 0) return true;
  }
}

}  // namespace

Result<os::UniqueFd> memory_file(std::string_view text) {
  Result<os::UniqueFd> made = os::make_unnamed_file();
  if (!made) return made;
  os::UniqueFd fd = *std::move(made);
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write to a memory file");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::lseek(fd.get(), 0, SEEK_SET) < 0) return os_error("lseek in a memory file");
  return fd;
}

std::string_view last_line(std::string_view output) {
  output = output.substr(0, output.find_last_not_of(" \t\r\n") + 1);
  return output.substr(output.find_last_of("\r\n") + 1);
}

std::string find_executable(const std::string& program, const std::vector<std::string>& env) {
  for (const std::string& candidate : os::exec_candidates(program, env)) {
    if (os::is_regular(candidate) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Result<ProgramEnd> run_program(const ProgramCall& call) {
  Result<os::UniqueFd> input = memory_file(call.input);
  if (!input) return std::move(input).error();
  Result<os::UniqueFd> more = memory_file(call.more.value_or(""));
  if (!more) return std::move(more).error();
  Result<Pipe> out = make_pipe();
  if (!out) return std::move(out).error();
  Result<Pipe> err = make_pipe();
  if (!err) return std::move(err).error();
  os::SpawnPlan plan;
  plan.argv = call.argv;
  plan.env = call.env;
  plan.cwd = call.cwd;
  plan.stdin_fd = input->get();
  plan.stdout_fd = out->write.get();
  plan.stderr_fd = err->write.get();
  if (call.more) plan.fds.push_back({more->get(), 3});
  if (call.umask) plan.umask = static_cast<mode_t>(*call.umask);
  plan.new_session = true;
  plan.parent_death_signal = SIGKILL;
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    const std::string& object = failure->object.empty() ? call.argv.front() : failure->object;
    return os_error("can't start " + object, failure->os_errno);
  }
  const os::Spawned program = std::get<os::Spawned>(std::move(result));
  out->write.reset();
  err->write.reset();
  ProgramEnd end;
  const bool has_ended =
      await(program, *out, *err, os::boot_now_ns() + call.limit_ns, call.most_said, end);
  // Not reaped yet, so the number is still this group's.
  if (!has_ended) ::kill(-program.pid, SIGKILL);
  const Result<os::Reaped> reaped = os::wait_for(program.pid);
  (void)read_on(out->read.get(), end.output, call.most_said);
  (void)read_on(err->read.get(), end.complaint, call.most_said);
  if (has_ended && !reaped) return reaped.error();
  if (has_ended) end.status = reaped->status;
  return end;
}

}  // namespace pergpu
