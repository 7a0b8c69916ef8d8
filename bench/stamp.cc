// stamp FILE MILLISECONDS: the job of the hand-over and makespan rows.  Sleeps, then appends one
// line
// "<start> <end>" (CLOCK_MONOTONIC, ns) to FILE by one write(2), so that many can share a file.
// Of MILLISECONDS only the leading number counts: "150ms-17" tells equal jobs apart.
// Start is read first thing in main, end right before the write: exec before it and exit after it
// count as hand-over, for every runner alike.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

std::int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t start = now_ns();
  if (argc != 3) return 2;
  const long long ms = std::atoll(argv[2]);
  const timespec length{.tv_sec = ms / 1000, .tv_nsec = static_cast<long>(ms % 1000) * 1'000'000};
  const int fd = ::open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return 1;
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);

  char line[64];
  const std::int64_t end = now_ns();
  const int size = std::snprintf(line, sizeof line, "%lld %lld\n", static_cast<long long>(start),
                                 static_cast<long long>(end));
  ::_exit(::write(fd, line, static_cast<std::size_t>(size)) == size ? 0 : 1);
}
