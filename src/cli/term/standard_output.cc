// write(2) without a buffer of our own: what print() was given is with the kernel when it returns.
#include "cli/term/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cli/term/exit_code.h"
#include "cli/term/messages.h"

namespace pergpu::cli {
namespace {

/// Ends this process the way a program that never heard of SIGPIPE ends, also where it was started
/// with SIGPIPE ignored or blocked.
[[noreturn]] void end_by_sigpipe() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe_only;
  ::sigemptyset(&pipe_only);
  ::sigaddset(&pipe_only, SIGPIPE);
  ::raise(SIGPIPE);
  ::sigprocmask(SIG_UNBLOCK, &pipe_only, nullptr);
  ::_exit(128 + SIGPIPE);
}

void wait_for_room(int fd) {
  pollfd waited{.fd = fd, .events = POLLOUT, .revents = 0};
  (void)::poll(&waited, 1, -1);
}

}  // namespace

void reserve_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is `fd`.  Not close-on-exec: the same holds for what is executed.
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool StandardOutput::write(std::string_view data) {
  while (error_ == 0 && !data.empty()) {
    const ssize_t n = ::write(fd_, data.data(), data.size());
    if (n >= 0) {
      has_written_ = true;
      data.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for_room(fd_);
    } else if (errno != EINTR) {
      failed(errno);
    }
  }
  return error_ == 0;
}

void StandardOutput::failed(int error) {
  error_ = error;
  if (error != EPIPE) {
    const char* why = error == EBADF ? "it is closed" : std::strerror(error);
    say(std::string("pergpu: can't write to stdout: ") + why);
  } else if (!outlives_reader_) {
    end_by_sigpipe();
  }
}

int StandardOutput::finish(int code) {
  // What close(2) says about a file that was only read from, or of a terminal, is of no interest.
  if (error_ == 0 && has_written_ && ::close(fd_) < 0 && errno != EINTR && errno != EBADF) {
    failed(errno);
  }
  if (error_ == 0 || code != kOk) return code;
  if (error_ == EPIPE) end_by_sigpipe();
  return kSomeFailed;
}

StandardOutput& standard_output() {
  static StandardOutput output(STDOUT_FILENO);
  return output;
}

}  // namespace pergpu::cli
