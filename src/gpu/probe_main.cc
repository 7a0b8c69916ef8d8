// Where NVIDIA has no driver, AMD's GPUs are looked for.
//
// Blocking and single-threaded: the caller has the deadline.  NVML stays initialized between
// looks (initializing costs a second a GPU), and the probe leaves after a minute without a request
// so that an idle coordinator keeps no GPU awake and no driver from being replaced.  While jobs run
// on GPUs it is told to stay: the driver keeps their errors (Xids) for those only who have asked
// for them before.
//
// Usage is read each second while jobs run: of process trees from /proc, which needs no driver, and
// of those GPUs that a look has shown.  It initializes nothing, and goes on with the library that
// is loaded, whatever was installed since.
//
// A driver that was updated meanwhile still works for processes that have the old library, but for
// none that starts now.  So a probe whose library's file was replaced leaves, and the look is made
// by a new one, which meets what a job would meet.
#include "gpu/probe_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/amd_look.h"
#include "gpu/device_look.h"
#include "gpu/nvml.h"
#include "gpu/probe_wire.h"
#include "os/clock.h"
#include "os/process/tree_usage.h"
#include "os/test_hooks.h"

namespace pergpu::gpu {

namespace {

constexpr int kIdleMs = 60'000;
constexpr std::int64_t kRestartNs = 60'000'000'000;
constexpr std::size_t kMaxRequestBytes = 64u << 10;

bool write_line(int fd, std::string line) {
  line += '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t size = ::write(fd, line.data() + done, line.size() - done);
    if (size > 0) done += static_cast<std::size_t>(size);
    if (size < 0 && errno == EAGAIN) {
      pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (size < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

// The next line of `fd`; nullopt at its end, after a minute without one (unless `stay`), or when
// one is too long.
std::optional<std::string> read_line(int fd, std::string& buffer, bool stay) {
  for (;;) {
    if (const std::size_t end = buffer.find('\n'); end != std::string::npos) {
      std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return line;
    }
    if (buffer.size() > kMaxRequestBytes) return std::nullopt;
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, stay ? -1 : kIdleMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> chunk;
    const ssize_t size = ::read(fd, chunk.data(), chunk.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) return std::nullopt;
    buffer.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

std::string folder_from(const os::TestHook& hook, const char* usual) {
  const char* chosen = hook.value();
  return chosen != nullptr && *chosen != '\0' ? chosen : usual;
}

// Library, then initialization, then devices: what has succeeded once is kept, what failed is tried
// again with the next look (a driver may be installed or loaded meanwhile).
class Looker {
 public:
  explicit Looker(int out_fd)
      : out_fd_(out_fd),
        devices_(folder_from(os::test_hook::kSys, "/sys"),
                 folder_from(os::test_hook::kDev, "/dev")),
        amd_(folder_from(os::test_hook::kSys, "/sys"), folder_from(os::test_hook::kProc, "/proc")) {
  }
  ~Looker() { close(); }
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  GpuLook look(const ProbeRequest& request) {
    looked_ns_ = clock_.now().boot_ns;
    tell_xids(request);
    GpuLook look = look_at_nvidia(request);
    if (!look.no_driver) return look;
    std::vector<GpuReading> gpus = amd_.look(request.skip, [&](int index) {
      tell({request.id, "gpu", index, {}});
    });
    // Their processes are those of our own /proc: in a container, too, every pid means something.
    if (!gpus.empty()) look = {.complete = true, .gpus = std::move(gpus)};
    return look;
  }

  UsageAnswer usage(const ProbeRequest& request) {
    const std::int64_t before_ns = os::own_cpu_ns();
    rest_driver(request);
    UsageAnswer answer;
    answer.trees = trees_.read(request.usage->trees);
    answer.boot_ns = clock_.now().boot_ns;
    const std::vector<std::string>& asked = request.usage->gpus;
    const auto before = [&](int index) { tell({request.id, "gpu", index, {}}); };
    if (!asked.empty()) {
      answer.gpus = initialized_ ? devices_.usage(*nvml_, asked, request.skip, before)
                                 : amd_.usage(asked, request.skip, before);
    }
    answer.cost_ns = os::own_cpu_ns() - before_ns;
    return answer;
  }

  /// Before a GPU is touched: one that hangs has often said why.
  void tell_xids(const ProbeRequest& request) {
    std::vector<GpuXid> xids = take_xids();
    if (!xids.empty()) tell({request.id, "xids", -1, std::move(xids)});
  }
  /// The library's file is another one than that which was loaded.
  bool is_outdated() const { return nvml_ && nvml_->file_was_replaced(); }

 private:
  GpuLook look_at_nvidia(const ProbeRequest& request) {
    if (!nvml_) {
      tell({request.id, "load", -1, {}});
      Result<Nvml> loaded = Nvml::load();
      if (!loaded) {
        GpuLook look;
        look.no_driver = loaded.error().kind == ErrorKind::NotFound;
        look.complete = look.no_driver;
        look.why = look.no_driver ? "no NVIDIA driver (" + loaded.error().message + ")"
                                  : loaded.error().message;
        return look;
      }
      nvml_.emplace(std::move(*loaded));
    }
    if (!initialized_ || is_stale_) {
      tell({request.id, "init", -1, {}});
      restart_if_stale();
      if (const int code = nvml_->init(); code != nvml_code::kSuccess) {
        GpuLook look = failed_look(code, "initialize NVML");
        look.library = nvml_->library_version();
        return look;
      }
      driver_ = nvml_->driver_version();
      cuda_ = nvml_->cuda_version();
      initialized_ = true;
      initialized_ns_ = clock_.now().boot_ns;
    }
    GpuLook look = devices_.look(*nvml_, request.skip, [&](int index) {
      tell({request.id, "gpu", index, {}});
    });
    look.xids = take_xids();
    look.driver = driver_;
    look.library = nvml_->library_version();
    look.cuda = cuda_;
    is_stale_ = is_stale(look);
    return look;
  }
  /// While jobs without a GPU run the driver is let go as it would be if the probe had left.
  void rest_driver(const ProbeRequest& request) {
    const bool is_needed = request.stay || !request.usage->gpus.empty();
    if (!is_needed && clock_.now().boot_ns - looked_ns_ > kIdleMs * 1'000'000ll) close();
  }
  std::vector<GpuXid> take_xids() {
    if (!initialized_) return {};
    return devices_.take_xids(*nvml_, clock_.now().boot_ns);
  }
  // NVML never recovers a lost GPU, nor one that a container was given back, nor one whose driver
  // came later, without a new initialization.  That costs a second a GPU, so once a minute at most.
  bool is_stale(const GpuLook& look) {
    const bool is_lost = std::ranges::any_of(look.gpus, [](const GpuReading& reading) {
      return reading.health == GpuHealth::Lost || reading.health == GpuHealth::Error;
    });
    const bool is_suspect = is_lost || !look.complete || look.gpus.empty();
    return is_suspect && clock_.now().boot_ns - initialized_ns_ > kRestartNs;
  }
  void restart_if_stale() {
    if (std::exchange(is_stale_, false)) close();
  }
  void close() {
    if (!std::exchange(initialized_, false)) return;
    devices_.forget(*nvml_);
    nvml_->shutdown();
  }
  void tell(const ProbeProgress& progress) { write_line(out_fd_, to_line(progress)); }

  int out_fd_;
  DeviceLooker devices_;
  AmdLooker amd_;
  os::TreeReader trees_ = {};
  std::optional<Nvml> nvml_ = std::nullopt;
  std::string driver_ = {};  // of the driver that was initialized
  std::string cuda_ = {};
  bool initialized_ = false;
  bool is_stale_ = false;
  std::int64_t initialized_ns_ = 0;
  std::int64_t looked_ns_ = 0;
  os::RealClock clock_ = {};
};

}  // namespace

int probe_main(int in_fd, int out_fd) {
  // Armed by the spawn too; here for a probe that was started otherwise.  A parent that had gone
  // before this line has closed our input as well: the first read ends us.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  // A library that prints must not do so into the protocol.
  if (out_fd == STDOUT_FILENO) {
    const int kept = ::fcntl(out_fd, F_DUPFD_CLOEXEC, 3);
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept < 0 || null < 0) return 1;
    ::dup2(null, STDOUT_FILENO);
    ::close(null);
    out_fd = kept;
  }

  Looker looker(out_fd);
  std::string buffer;
  bool stay = false;
  while (const std::optional<std::string> line = read_line(in_fd, buffer, stay)) {
    const Result<ProbeRequest> request = parse_request(*line);
    if (!request) return 2;
    stay = request->stay;
    if (request->rest) continue;
    if (request->usage) {
      if (!write_line(out_fd, to_line(ProbeUsage{request->id, looker.usage(*request)}))) return 1;
      continue;
    }
    if (looker.is_outdated()) {
      looker.tell_xids(*request);
      return 0;
    }
    if (!write_line(out_fd, to_line(ProbeReply{request->id, looker.look(*request)}))) return 1;
  }
  return 0;
}

}  // namespace pergpu::gpu
