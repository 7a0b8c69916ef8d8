// A copy is made beside its place and renamed: who comes second, or after a crash, finds it whole.
#include "cli/submit/code_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/submit/code_files.h"
#include "coordinator/code_place.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/fs/private_path.h"
#include "os/random.h"
#include "spec/templates/placeholders.h"
#include "state/submit.h"

namespace pergpu::cli {
namespace {

constexpr mode_t kFolderMode = 0700;  // whatever the umask: others can't reach what is in it
constexpr int kMostCopyNames = 100;   // of copies that were changed

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

Error failed(const char* what, const std::string& path) {
  return os_error(fmt::format("snapshot: {} {}", what, path), errno);
}

/// Reads all of a file; `take` may fail with errno.  Adds it to the hash.
Result<void> read_through(int file, const std::string& path, Hash& hash,
                          const std::function<bool(const char*, std::size_t)>& take) {
  struct stat info {};
  if (::fstat(file, &info) < 0) return failed("look at", path);
  hash.text((info.st_mode & 0100) != 0 ? "x" : "-");
  std::array<char, 1 << 16> bytes{};
  std::uint64_t size = 0;
  for (;;) {
    const ssize_t got = ::read(file, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path);
    if (got == 0) break;
    hash.add(bytes.data(), static_cast<std::size_t>(got));
    size += static_cast<std::uint64_t>(got);
    if (!take(bytes.data(), static_cast<std::size_t>(got))) return failed("write a copy of", path);
  }
  hash.add(&size, sizeof size);
  return {};
}

bool write_all(int file, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t put = ::write(file, data, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    data += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

Result<void> copy_file(const std::string& from, const os::HeldFolder& folder,
                       const std::string& name, mode_t mask, Hash& hash) {
  const os::UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!in || ::fstat(in.get(), &info) < 0) return failed("open", from);
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorKind::Invalid, 0, fmt::format("snapshot: {} is no longer a file", from)};
  }
  const os::UniqueFd out(::openat(folder.fd(), name.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                  info.st_mode & 0777 & ~mask));
  if (!out) return failed("make", folder.path_of(name));
  return read_through(in.get(), from, hash, [&](const char* data, std::size_t size) {
    return write_all(out.get(), data, size);
  });
}

/// Of a copy.
bool hash_file(const std::string& path, Hash& hash) {
  const os::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return false;
  return static_cast<bool>(
      read_through(file.get(), path, hash, [](const char*, std::size_t) { return true; }));
}

bool hash_link(const std::string& path, Hash& hash) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return false;
  hash.text({target.data(), static_cast<std::size_t>(size)});
  return true;
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
  const mode_t mask = os::current_umask();
  Hash hash;
  const Result<os::HeldFolder> whole = os::HeldFolder::make(copy, kFolderMode);
  if (!whole) return whole.error();
  if (!cwd.empty()) {
    const auto made = os::HeldFolder::make(copy + "/" + cwd, kFolderMode);
    if (!made) return made.error();
  }
  for (const CodeFile& file : files) {
    hash.text(file.path);
    const std::string from = folder + "/" + file.path;
    const std::string to = copy + "/" + file.path;
    const auto held = os::HeldFolder::make(os::parent_of(to), kFolderMode);
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

/// What is in a copy, as fill() has hashed it; "": not all of it is there.
std::string hash_of_copy(const std::string& copy, const std::vector<CodeFile>& files) {
  Hash hash;
  for (const CodeFile& file : files) {
    hash.text(file.path);
    const std::string path = copy + "/" + file.path;
    const bool is_file = file.kind == CodeFile::Kind::File;
    if (is_file ? !hash_file(path, hash) : !hash_link(path, hash)) return {};
  }
  return hash.hex();
}

/// Of a rename.
bool is_taken(int code) { return code == EEXIST || code == ENOTEMPTY || code == ENOTDIR; }

/// One of an earlier submit that is as it was made.  Jobs may have added files to it.
bool is_whole(const std::string& copy, const std::vector<CodeFile>& files,
              const std::string& hash) {
  return check_code_place(copy) && hash_of_copy(copy, files) == hash;
}

/// Where copies of the sweep's code lie: only this user can write there.
Result<os::HeldFolder> open_shelf(const SweepSpec& sweep, const CodeSite& site) {
  const std::string folder = output_root(sweep) + "/" + sweep.name;
  const auto results = os::HeldFolder::make(folder, 0777 & ~os::current_umask());
  if (!results) return results.error();
  const std::string beside = code_beside_results(folder);
  Result<void> may = os::check_private(folder);
  if (may) {
    Result<os::HeldFolder> shelf = os::HeldFolder::make(beside, kFolderMode);
    if (!shelf) return shelf;
    may = os::check_private(beside);
    if (may) return shelf;
  }
  if (may.error().kind != ErrorKind::Denied) return std::move(may).error();
  if (site.is_remote) {
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("snapshot: {}, so the jobs' code isn't safe in {}. Remove that "
                             "permission (chmod go-w), or choose another folder with --out",
                             may.error().message, folder)};
  }
  return os::HeldFolder::make(code_in_home(site.home, folder), kFolderMode);
}

Result<std::string> copy_of(const SweepSpec& sweep, const StepSpec& step, const CodeSite& site) {
  Result<std::vector<CodeFile>> files = files_of(sweep, step);
  if (!files) return std::move(files).error();
  const Result<os::HeldFolder> shelf = open_shelf(sweep, site);
  if (!shelf) return shelf.error();
  const std::string draft = ".new-" + os::random_hex(8);
  const std::string cwd = has_placeholders(step.cwd) ? std::string() : step.cwd;
  Result<std::string> hash = fill(sweep.folder, shelf->path_of(draft), *files, cwd);
  if (!hash) {
    (void)shelf->remove_tree(draft);
    return hash;
  }
  const auto name_it = [&](const std::string& name) -> Result<void> {
    Result<void> named = shelf->rename(draft, name);
    return named ? shelf->sync() : named;
  };
  std::string name = *hash;
  Result<void> named = name_it(name);
  for (int i = 2; !named && is_taken(named.error().os_errno) && i <= kMostCopyNames; ++i) {
    if (is_whole(shelf->path_of(name), *files, *hash)) {
      named = shelf->remove_tree(draft);
      break;
    }
    name = fmt::format("{}-{}", *hash, i);  // what has that one was changed
    named = name_it(name);
  }
  if (named) return shelf->path_of(name);
  (void)shelf->remove_tree(draft);
  return os_error("snapshot: name " + shelf->path_of(name), named.error().os_errno);
}

}  // namespace

Result<void> copy_code(SweepSpec& sweep, const CodeSite& site) {
  for (StepSpec& step : sweep.steps) {
    if (step.snapshot.empty()) continue;
    Result<std::string> copy = copy_of(sweep, step, site);
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
        fmt::format("snapshot of step {}: {} was removed during the submit; submit the sweep again",
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
