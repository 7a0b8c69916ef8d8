// A link of /proc/PID/fd reads "/memfd:NAME (deleted)", and so do the lines of /proc/PID/maps.  The
// name proves nothing: a file can be called so, too; the seals and the missing name do.
#include "os/ipc/shared_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "number.h"
#include "os/fs/file.h"
#include "os/process/proc.h"
#include "os/system_calls.h"

namespace pergpu::os {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::string_view kBegin = "/memfd:";
constexpr std::string_view kEnd = " (deleted)";
constexpr std::size_t kMostOfMaps = 64u << 20;

/// "" when it is not the link, or the path, of such memory.
std::string_view name_in(std::string_view link) {
  if (!link.starts_with(kBegin) || !link.ends_with(kEnd)) return {};
  return link.substr(kBegin.size(), link.size() - kBegin.size() - kEnd.size());
}

/// When it was made, else when it was last changed from outside.
std::int64_t made_at(const std::string& path) {
  call::StatxTimes found;
  if (call::statx(AT_FDCWD, path.c_str(), 0, call::kStatxBtime | call::kStatxCtime, &found) == 0) {
    const bool is_told = (found.mask & call::kStatxBtime) != 0;
    const call::StatxTime& at = is_told ? found.born : found.changed;
    return at.seconds * 1'000'000'000 + at.nanoseconds;
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}

MemoryId id_of(const struct stat& status) {
  return {.device = status.st_dev, .inode = status.st_ino};
}

/// The next word of `rest`, which begins behind it then.
std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

class Finder {
 public:
  explicit Finder(std::string_view prefix) : prefix_(prefix) {}

  void look_at_files(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    const Result<std::vector<std::string>> numbers = list_dir(folder);
    if (!numbers) return;
    for (const std::string& number : *numbers) {
      const std::string link = link_of(pid, "fd/" + number);
      const std::string_view name = name_in(link);
      const std::optional<std::uint64_t> fd = whole_number<std::uint64_t>(number);
      if (name.empty() || !name.starts_with(prefix_) || !fd) continue;
      const std::string path = folder + "/" + number;
      struct stat status {};
      if (::stat(path.c_str(), &status) != 0 || status.st_nlink != 0) continue;
      HeldMemory& held = found_[id_of(status)];
      if (held.memory.name.empty()) {
        held.memory = {.id = id_of(status),
                       .name = std::string(name),
                       .bytes = static_cast<std::uint64_t>(status.st_size),
                       .made_wall_ns = made_at(path)};
      }
      add(held, {.pid = pid, .fd = static_cast<int>(*fd)});
    }
  }

  /// What a process has mapped and not open any more.
  void look_at_mappings(pid_t pid) {
    const Result<std::string> maps =
        read_file("/proc/" + std::to_string(pid) + "/maps", kMostOfMaps);
    if (!maps) return;
    for (std::string_view rest = *maps; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const std::optional<MappedMemory> mapped = mapped_memory_in(line, prefix_);
      if (!mapped) continue;
      HeldMemory& held = found_[mapped->id];
      if (held.memory.name.empty()) held.memory = {.id = mapped->id, .name = mapped->name};
      if (held.memory.bytes < mapped->end) held.memory.bytes = mapped->end;
      add(held, {.pid = pid});
    }
  }

  std::vector<HeldMemory> take() {
    std::vector<HeldMemory> all;
    for (auto& [id, held] : found_) all.push_back(std::move(held));
    std::ranges::stable_sort(all, {}, [](const HeldMemory& h) { return h.memory.made_wall_ns; });
    return all;
  }

 private:
  static void add(HeldMemory& held, MemoryHolder holder) {
    const bool is_there = std::ranges::any_of(
        held.holders, [&](const MemoryHolder& one) { return one.pid == holder.pid; });
    if (!is_there) held.holders.push_back(holder);
  }

  std::string_view prefix_;
  std::map<MemoryId, HeldMemory> found_;
};

}  // namespace

Result<SharedMemory> memory_of(int fd) {
  const auto refused = [](const char* why) {
    return Error{ErrorKind::Invalid, 0,
                 std::string("the descriptor isn't shared memory of a fixed size: ") + why};
  };
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return refused("it cannot be sealed");
  if ((seals & kFixedSize) != kFixedSize) return refused("its size is not sealed");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return os_error("look at shared memory");
  const std::string place = "fd/" + std::to_string(fd);
  const std::string link = link_of(::getpid(), place);
  const std::string_view name = name_in(link);
  if (name.empty() || status.st_nlink != 0) return refused("it has a name in a folder");
  return SharedMemory{.id = id_of(status),
                      .name = std::string(name),
                      .bytes = static_cast<std::uint64_t>(status.st_size),
                      .made_wall_ns = made_at("/proc/self/" + place)};
}

std::vector<HeldMemory> find_memory(std::string_view prefix, LookAt places) {
  const uid_t own = ::getuid();
  Finder finder(prefix);
  for (const pid_t pid : all_processes()) {
    struct stat status {};
    const std::string folder = "/proc/" + std::to_string(pid);
    if (::stat(folder.c_str(), &status) != 0 || status.st_uid != own) continue;
    finder.look_at_files(pid);
    if (places == LookAt::MappingsToo) finder.look_at_mappings(pid);
  }
  return finder.take();
}

std::optional<UniqueFd> open_memory(const MemoryHolder& holder, MemoryId id) {
  const std::string path =
      "/proc/" + std::to_string(holder.pid) + "/fd/" + std::to_string(holder.fd);
  const std::string link = link_of(holder.pid, "fd/" + std::to_string(holder.fd));
  if (name_in(link).empty()) return std::nullopt;  // opening a FIFO would wait
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || id_of(status) != id) return std::nullopt;
  return fd;
}

std::optional<MappedMemory> mapped_memory_in(std::string_view line, std::string_view prefix) {
  // 7f00c000-7f01c000 rw-p 00002000 00:01 4711    /memfd:pergpu:data-0af3 (deleted)
  const std::size_t path = line.find('/');
  if (path == std::string_view::npos) return std::nullopt;
  const std::string_view name = name_in(line.substr(path));
  if (name.empty() || !name.starts_with(prefix)) return std::nullopt;
  std::string_view rest = line.substr(0, path);
  const std::string_view range = take_word(rest);
  take_word(rest);  // what may be done with it
  const std::optional<std::uint64_t> offset = whole_number<std::uint64_t>(take_word(rest), 16);
  const std::string_view device = take_word(rest);
  const std::optional<std::uint64_t> inode = whole_number<std::uint64_t>(take_word(rest));
  const std::size_t dash = range.find('-');
  const std::size_t colon = device.find(':');
  if (dash == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint64_t> begin = whole_number<std::uint64_t>(range.substr(0, dash), 16);
  const std::optional<std::uint64_t> end = whole_number<std::uint64_t>(range.substr(dash + 1), 16);
  const std::optional<std::uint64_t> upper =
      whole_number<std::uint64_t>(device.substr(0, colon), 16);
  const std::optional<std::uint64_t> lower =
      whole_number<std::uint64_t>(device.substr(colon + 1), 16);
  if (!offset || !inode || !begin || !end || !upper || !lower) return std::nullopt;
  return MappedMemory{
      .id = {.device = makedev(static_cast<unsigned>(*upper), static_cast<unsigned>(*lower)),
             .inode = *inode},
      .name = std::string(name),
      .end = *offset + (*end - *begin)};
}

}  // namespace pergpu::os
