// A lock file that another user has made is locked through a read-only descriptor; it is replaced
// by one of our own where the folder allows that, so that it can hold our name.
#include "os/fs/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <vector>

#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/fs/lock.h"
#include "os/fs/lock_holder.h"

namespace pergpu::os {
namespace {

constexpr mode_t kMode = 0644;  // others must be able to lock it; it holds a name and no secret
constexpr mode_t kFolderMode = 0755;
constexpr std::size_t kLongestName = 400;
/// A folder is <output root>/<sweep>/<run>/<step>: below the root others may move links.
constexpr int kLevels = 3;
constexpr int kRounds = 16;
constexpr int kLockTries = 4;

/// No second name of a file, no link, no FIFO.  Our file with text that others can't read is a
/// private one that a neighbor has moved here: write_name() writes into files of kMode only.
bool is_lock_file(const struct stat& st) {
  const bool is_private =
      st.st_uid == ::geteuid() && st.st_size > 0 && (st.st_mode & 0777) != kMode;
  return S_ISREG(st.st_mode) && st.st_nlink <= 1 && !is_private;
}

/// For a moment others look at the lock, too.
bool lock_now(int fd) {
  for (int i = 0; i < kLockTries; ++i) {
    if (i > 0) ::usleep(1000);
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
  }
  errno = EWOULDBLOCK;
  return false;
}

bool cannot_lock_files(const Error& error) {
  const int code = error.os_errno;
  if (error.kind == ErrorKind::Denied) return false;  // the file is none that pergpu locks
  return code == EOPNOTSUPP || code == ENOLCK || code == ENOSYS || code == EINVAL || code == EBADF;
}

/// One line, whatever is in the file.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::string process_words(const struct stat& st) {
  const std::optional<LockHolder> holder = find_lock_holder(st);
  return holder ? words_of(*holder) : "another process";
}

/// A process has the log of an attempt as output.
bool is_log_held(const HeldFolder& folder) {
  const UniqueFd fd(::openat(folder.fd(), FolderLock::kLog,
                             O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

constexpr char kLogHeld[] = "processes left by an earlier attempt, which still write to its log";

/// Only shared locks are in the way: pergpu takes none, so the file doesn't name their holder.
bool has_shared_lock(int fd) {
  if (::flock(fd, LOCK_SH | LOCK_NB) < 0) return false;
  (void)::flock(fd, LOCK_UN);
  return true;
}

/// Who holds the lock on this open file.
std::string holder_of(int fd, const std::string& path) {
  struct stat st = {};
  if (::fstat(fd, &st) < 0) return "another process";
  if (has_shared_lock(fd)) return process_words(st) + ", by a shared lock on " + path;
  std::array<char, kLongestName> name{};
  // With a second name it may be a user's own file, whose text must stay private.
  const ssize_t size = is_lock_file(st) ? ::pread(fd, name.data(), name.size(), 0) : 0;
  if (size <= 0) return process_words(st);
  return printable(std::string_view(name.data(), static_cast<std::size_t>(size)));
}

/// A folder that pergpu works in, or worked in: it may be gone.
struct Target {
  std::string path = {};
  const HeldFolder* folder = nullptr;
};

bool is_remote(const Target& target) {
  struct statfs fs = {};
  if (target.folder != nullptr && ::fstatfs(target.folder->fd(), &fs) == 0)
    return is_network_filesystem(static_cast<std::uint64_t>(fs.f_type));
  const Result<bool> remote = on_network_filesystem(target.path);
  return remote && *remote;
}

enum class Kind { File, HiddenFolder, Itself };
/// What is locked to have a folder: `name` in `parent`, or in the folder itself.
struct Place {
  std::optional<HeldFolder> parent = std::nullopt;
  std::string name = {};
  Kind kind = Kind::File;

  bool is_beside() const { return parent.has_value(); }
};

/// A place and the open folder that its name lies in.
struct HeldPlace {
  const Place& place;
  const HeldFolder& folder;

  int fd() const { return folder.fd(); }
  const char* name() const { return place.name.c_str(); }
  std::string path() const { return folder.path_of(place.name); }
};
/// nullopt: the folder is gone.
std::optional<HeldPlace> hold(const Place& place, const Target& target) {
  const HeldFolder* folder = place.parent ? &*place.parent : target.folder;
  if (folder == nullptr) return std::nullopt;
  return HeldPlace{.place = place, .folder = *folder};
}

/// Where an open folder lies; resolving its path could follow a link that another user has put
/// there meanwhile.
std::string location_of(const HeldFolder& folder) {
  const std::string link = "/proc/self/fd/" + std::to_string(folder.fd());
  std::array<char, PATH_MAX> buffer = {};
  const ssize_t size = ::readlink(link.c_str(), buffer.data(), buffer.size());
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The open folder's parent, which no path leads to, if the folder has the last name of `path`.
std::optional<HeldFolder> parent_by_name(const HeldFolder& folder, const std::string& path) {
  Result<HeldFolder> parent = folder.open_parent(parent_of(path));
  struct stat st = {};
  if (!parent || ::fstat(folder.fd(), &st) < 0) return std::nullopt;
  const Result<std::optional<struct stat>> named = parent->look_at(name_of(path));
  if (!named || !*named || !is_same(**named, st)) return std::nullopt;
  return *std::move(parent);
}

bool is_link(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
}

/// In the order in which they are locked.  A parent that can't be opened has none.
std::vector<Place> places_of(const Target& target, bool remote) {
  std::vector<Place> places;
  const auto add = [&](std::optional<HeldFolder> parent, const std::string& path) {
    if (!parent) return;
    places.push_back({.parent = *std::move(parent),
                      .name = std::string(FolderLock::kName) + "." + name_of(path),
                      .kind = remote ? Kind::HiddenFolder : Kind::File});
  };
  const std::string& path = target.path;
  const std::string last = name_of(path);
  const bool has_name = !last.empty() && last != "." && last != "..";
  if (has_name && target.folder != nullptr) add(parent_by_name(*target.folder, path), path);
  const bool is_at_path = !places.empty();  // else it's behind a link, or gone
  if (has_name && !is_at_path) {
    if (Result<HeldFolder> parent = open_levels(parent_of(path), kLevels - 1); parent)
      add(*std::move(parent), path);
  }
  if (target.folder != nullptr && !is_at_path && (!has_name || is_link(path))) {
    const std::string real = location_of(*target.folder);
    add(parent_by_name(*target.folder, real), real);
  }
  places.push_back(remote ? Place{.name = ".", .kind = Kind::Itself}
                          : Place{.name = FolderLock::kName});
  return places;
}

enum class Use { Take, Look };

struct Opened {
  UniqueFd fd = {};
  bool is_writable = true;
};

Opened open_file(const HeldPlace& place, Use use) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int create = use == Use::Take ? O_CREAT : 0;
  const int folder = place.fd();
  const char* name = place.name();
  Opened out{UniqueFd(::openat(folder, name, O_RDWR | create | kFlags, kMode))};
  if (out.fd || (errno != EACCES && errno != EPERM)) return out;
  const int denied = errno;
  // Its maker's umask may keep us out until the maker has set the mode.
  for (int i = 0; i < kLockTries; ++i) {
    if (i > 0) ::usleep(1000);
    out = {UniqueFd(::openat(folder, name, O_RDONLY | kFlags)), false};
    if (out.fd || errno != EACCES) break;
  }
  if (!out.fd && errno == ENOENT) errno = denied;
  return out;
}

/// Makes it if need be, but not for a look: its holder may be removing the folder.
Opened open_place(const HeldPlace& place, Use use) {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (place.place.kind == Kind::File) return open_file(place, use);
  if (place.place.kind == Kind::HiddenFolder && use == Use::Take)
    (void)place.folder.make_below(place.place.name, kFolderMode);
  return {UniqueFd(::openat(place.fd(), place.name(), kFolder)), false};
}

/// The file is ours and has no other name: what is written to it is written nowhere else.  Where
/// its mode can't be set it stays empty, as is_lock_file() expects.
void write_name(int fd, struct stat st, std::string_view name) {
  if (st.st_size > 0) (void)!::ftruncate(fd, 0);
  if ((st.st_mode & 0777) != kMode) (void)::fchmod(fd, kMode);
  if (::fstat(fd, &st) < 0 || (st.st_mode & 0777) != kMode) return;
  name = name.substr(0, kLongestName);
  (void)!::pwrite(fd, name.data(), name.size(), 0);
}

/// Its holder hasn't removed it.
bool is_named(const HeldPlace& place, const struct stat& st) {
  const Result<std::optional<struct stat>> named = place.folder.look_at(place.place.name);
  return named && *named && is_same(**named, st);
}

/// REQUIRES: the caller has its lock, or it can't be locked.
void remove(const HeldPlace& place) {
  const Kind kind = place.place.kind;
  if (kind == Kind::Itself) return;
  ::unlinkat(place.fd(), place.name(), kind == Kind::HiddenFolder ? AT_REMOVEDIR : 0);
}

/// No descriptor: a look has found nothing there that could be locked.
Result<UniqueFd> lock_place(const HeldPlace& held, Use use, std::string_view holder) {
  const Kind kind = held.place.kind;
  for (int round = 0; round < kRounds; ++round) {
    Opened opened = open_place(held, use);
    if (!opened.fd && use == Use::Look && errno == ENOENT) return UniqueFd();
    if (!opened.fd) return os_error("open " + held.path());
    const int fd = opened.fd.get();
    if (!lock_now(fd)) {
      if (errno == EWOULDBLOCK) {
        return Error{ErrorKind::Busy, EWOULDBLOCK, holder_of(fd, held.path())};
      }
      const Error error = os_error("lock " + held.path());
      if (held.place.is_beside() && cannot_lock_files(error)) remove(held);
      return error;
    }
    struct stat st = {};
    if (::fstat(fd, &st) < 0) return os_error("stat " + held.path());
    if (kind == Kind::File && !is_lock_file(st)) {
      return Error{ErrorKind::Denied, EINVAL,
                   held.path() +
                       " isn't a lock file of pergpu: it isn't a regular file, has a "
                       "second name, or is a private file; move it away"};
    }
    if (kind == Kind::Itself && st.st_nlink == 0) return os_error("lock " + held.path(), ENOENT);
    if (!is_named(held, st)) continue;  // its holder has removed it
    if (use == Use::Look) return std::move(opened.fd);
    const bool is_ours = st.st_uid == ::geteuid();
    if (kind != Kind::File) return std::move(opened.fd);
    const bool can_write = is_ours && opened.is_writable;
    if (can_write) write_name(fd, st, holder);
    // With another user's file the lock is as good, but would show the name of the holder before.
    const bool may_replace = !can_write && round + 1 < kRounds;
    if (may_replace && ::unlinkat(held.fd(), held.name(), 0) == 0) continue;
    return std::move(opened.fd);
  }
  return Error{ErrorKind::Busy, EWOULDBLOCK, "several processes in turn"};
}

/// Both to take a folder and to look whether it could be taken: if these didn't ask for the same
/// locks, a job would be started and refused again and again.
Result<std::vector<UniqueFd>> lock_folder(const Target& target, Use use, std::string_view holder) {
  const bool remote = is_remote(target);
  const std::vector<Place> places = places_of(target, remote);
  std::vector<UniqueFd> fds;
  std::vector<HeldPlace> held;
  const auto give_back = [&](Error error) {
    for (const HeldPlace& place : held) remove(place);
    return error;
  };
  for (const Place& place : places) {
    const std::optional<HeldPlace> there = hold(place, target);
    if (!there) continue;
    Result<UniqueFd> fd = lock_place(*there, use, holder);
    const bool is_inside = place.kind == Kind::File && !place.is_beside();
    if (!fd && is_inside && cannot_lock_files(fd.error())) {
      const Place itself{.name = ".", .kind = Kind::Itself};
      fd = lock_place({.place = itself, .folder = there->folder}, use, holder);
    }
    if (!fd) {
      if (place.is_beside() && fd.error().kind != ErrorKind::Busy) continue;  // the other must do
      return give_back(std::move(fd).error());
    }
    if (use == Use::Look) continue;
    fds.push_back(*std::move(fd));
    if (place.is_beside()) held.push_back(*there);
  }
  if (!remote && target.folder != nullptr && is_log_held(*target.folder)) {
    return give_back({ErrorKind::Busy, EWOULDBLOCK, kLogHeld});
  }
  return fds;
}

}  // namespace

Result<FolderLock> FolderLock::take(const HeldFolder& folder, std::string_view holder) {
  Result<std::vector<UniqueFd>> fds = lock_folder({folder.path(), &folder}, Use::Take, holder);
  if (!fds) return std::move(fds).error();
  return FolderLock(*std::move(fds));
}

std::optional<std::string> holder_of_folder(const std::string& path) {
  const Result<HeldFolder> folder = open_levels(path, kLevels);
  const Target target{.path = path, .folder = folder ? &*folder : nullptr};
  const Result<std::vector<UniqueFd>> fds = lock_folder(target, Use::Look, {});
  if (fds || fds.error().kind != ErrorKind::Busy) return std::nullopt;
  return fds.error().message;
}

void lock_log(int fd) {
  struct statfs fs = {};
  if (::fstatfs(fd, &fs) < 0 || is_network_filesystem(static_cast<std::uint64_t>(fs.f_type)))
    return;
  (void)lock_now(fd);
}

namespace {

void tidy(const Target& target) {
  for (const Place& place : places_of(target, is_remote(target))) {
    const std::optional<HeldPlace> there = hold(place, target);
    if (!there || place.kind == Kind::Itself) continue;
    const UniqueFd fd(::openat(there->fd(), there->name(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat st = {};
    if (!fd || !lock_now(fd.get()) || ::fstat(fd.get(), &st) < 0) continue;
    const bool is_its_kind = place.kind == Kind::HiddenFolder || is_lock_file(st);
    if (is_its_kind && is_named(*there, st)) remove(*there);
  }
}

}  // namespace

void tidy_folder(const std::string& path) {
  const Result<HeldFolder> folder = open_levels(path, kLevels);
  tidy({.path = path, .folder = folder ? &*folder : nullptr});
}

void tidy_folder(const HeldFolder& folder) { tidy({.path = folder.path(), .folder = &folder}); }

}  // namespace pergpu::os
