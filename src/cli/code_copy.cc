// A copy is made beside its place and renamed: who comes second, or after a crash, finds it whole.
#include "cli/code_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/code_files.h"
#include "coordinator/submit.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/folder_walk.h"
#include "os/random.h"
#include "spec/placeholders.h"

namespace pergpu::cli {
namespace {

constexpr mode_t kFolderMode = 0777;  // less the umask, as what the user makes

class Hash {
 public:
  Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
  void add(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  /// With its length: two texts are never like one.
  void text(std::string_view text) {
    const std::uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  std::string hex() const {
    return fmt::format("{:016x}", XXH3_128bits_digest(state_.get()).high64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

mode_t own_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

Error failed(const char* what, const std::string& path) {
  return os_error(fmt::format("snapshot: {} {}", what, path), errno);
}

Result<void> copy_file(const std::string& from, const os::HeldFolder& folder,
                       const std::string& name, mode_t mask, Hash& hash) {
  const std::string to = folder.path_of(name);
  const os::UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!in || ::fstat(in.get(), &info) < 0) return failed("open", from);
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorKind::Invalid, 0, fmt::format("snapshot: {} is no file any more", from)};
  }
  const os::UniqueFd out(::openat(folder.fd(), name.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                  info.st_mode & 0777 & ~mask));
  if (!out) return failed("make", to);
  hash.text((info.st_mode & 0100) != 0 ? "x" : "-");
  std::array<char, 1 << 16> bytes{};
  std::uint64_t size = 0;
  for (;;) {
    const ssize_t got = ::read(in.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", from);
    if (got == 0) break;
    const auto count = static_cast<std::size_t>(got);
    hash.add(bytes.data(), count);
    size += count;
    for (std::size_t done = 0; done < count;) {
      const ssize_t put = ::write(out.get(), bytes.data() + done, count - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failed("write", to);
      done += static_cast<std::size_t>(put);
    }
  }
  hash.add(&size, sizeof size);
  return {};
}

Result<void> link_folder(const std::string& from, const os::HeldFolder& folder,
                         const std::string& name, Hash& hash) {
  const std::unique_ptr<char, void (*)(void*)> target(::realpath(from.c_str(), nullptr), std::free);
  if (target == nullptr) return failed("follow", from);
  hash.text(target.get());
  if (::symlinkat(target.get(), folder.fd(), name.c_str()) < 0)
    return failed("make", folder.path_of(name));
  return {};
}

/// All of it on disk.
Result<void> sync_all(const os::HeldFolder& folder) {
  const Result<os::UniqueFd> fd = folder.open_itself();
  if (!fd) return fd.error();
  if (::syncfs(fd->get()) < 0) return failed("sync", folder.path());
  return {};
}

Result<std::string> fill(const std::string& folder, const std::string& copy,
                         const std::vector<CodeFile>& files, const std::string& cwd) {
  const mode_t mask = own_umask();
  Hash hash;
  const Result<os::HeldFolder> whole = os::HeldFolder::make(copy, kFolderMode & ~mask);
  if (!whole) return whole.error();
  if (!cwd.empty()) {
    const auto made = os::HeldFolder::make(copy + "/" + cwd, kFolderMode & ~mask);
    if (!made) return made.error();
  }
  for (const CodeFile& file : files) {
    hash.text(file.path);
    const std::string from = folder + "/" + file.path;
    const std::string to = copy + "/" + file.path;
    const auto held = os::HeldFolder::make(os::parent_of(to), kFolderMode & ~mask);
    if (!held) return held.error();
    const std::string name = os::name_of(to);
    Result<void> copied = file.kind == CodeFile::Kind::File
                              ? copy_file(from, *held, name, mask, hash)
                              : link_folder(from, *held, name, hash);
    if (!copied) return std::move(copied).error();
  }
  if (Result<void> synced = sync_all(*whole); !synced) return std::move(synced).error();
  return hash.hex();
}

Result<std::vector<CodeFile>> files_of(const SweepSpec& sweep, const StepSpec& step) {
  Result<std::vector<CodeFile>> files = code_files(sweep.folder, step.snapshot, output_root(sweep));
  if (files) return files;
  Error error = std::move(files).error();
  error.message = fmt::format("snapshot of step {}: {}", step.name, error.message);
  return error;
}

Result<std::string> copy_of(const SweepSpec& sweep, const StepSpec& step) {
  Result<std::vector<CodeFile>> files = files_of(sweep, step);
  if (!files) return std::move(files).error();
  const std::string shelf = output_root(sweep) + "/" + sweep.name + "/_snapshot";
  const Result<os::HeldFolder> held = os::HeldFolder::make(shelf, kFolderMode & ~own_umask());
  if (!held) return held.error();
  const std::string draft = ".new-" + os::random_hex(8);
  const std::string cwd = has_placeholders(step.cwd) ? std::string() : step.cwd;
  Result<std::string> hash = fill(sweep.folder, shelf + "/" + draft, *files, cwd);
  std::string copy = hash ? shelf + "/" + *hash : std::string();
  const Result<void> named = hash ? held->rename(draft, *hash) : Result<void>();
  if (hash && named) {
    if (Result<void> synced = held->sync(); !synced) return std::move(synced).error();
    return copy;
  }
  (void)held->remove_tree(draft);
  if (!hash) return std::move(hash).error();
  const Result<std::optional<struct stat>> there = held->look_at(*hash);
  if (there && *there && S_ISDIR((*there)->st_mode)) return copy;  // of an earlier submit
  errno = named.error().os_errno;
  return failed("name", copy);
}

}  // namespace

Result<void> copy_code(SweepSpec& sweep) {
  for (StepSpec& step : sweep.steps) {
    if (step.snapshot.empty()) continue;
    Result<std::string> copy = copy_of(sweep, step);
    if (!copy) return std::move(copy).error();
    step.copy = *std::move(copy);
  }
  return {};
}

Result<void> find_copies(const SweepSpec& sweep) {
  for (const StepSpec& step : sweep.steps) {
    if (step.copy.empty() || os::is_directory(step.copy)) continue;
    return Error{
        ErrorKind::Io, 0,
        fmt::format("snapshot of step {}: {} was removed meanwhile; submit the sweep again",
                    step.name, step.copy)};
  }
  return {};
}

Result<void> check_code(const SweepSpec& sweep) {
  for (const StepSpec& step : sweep.steps) {
    if (step.snapshot.empty()) continue;
    if (Result<std::vector<CodeFile>> files = files_of(sweep, step); !files) {
      return std::move(files).error();
    }
  }
  return {};
}

}  // namespace pergpu::cli
