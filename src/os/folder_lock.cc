// A lock file that another user has made is locked through a read-only descriptor; it is replaced
// by one of our own where the folder allows that, so that it can hold our name.
#include "os/folder_lock.h"

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

#include "os/file.h"
#include "os/folder_walk.h"
#include "os/lock.h"
#include "os/lock_holder.h"

namespace pergpu::os {
namespace {

constexpr mode_t kMode = 0644;  // others must be able to lock it; it holds a name and no secret
constexpr mode_t kFolderMode = 0755;
constexpr std::size_t kLongestName = 400;
/// A folder is <output root>/<sweep>/<run>/<step>: below the root others may move links.
constexpr int kLevels = 3;
constexpr int kRounds = 16;
constexpr int kTries = 4;

/// No second name of a file, no link, no FIFO.  A file of ours with text that others can't read is
/// a private one that a neighbor has moved here: write_name() writes into files of kMode only.
bool is_lock_file(const struct stat& st) {
  const bool is_private =
      st.st_uid == ::geteuid() && st.st_size > 0 && (st.st_mode & 0777) != kMode;
  return S_ISREG(st.st_mode) && st.st_nlink <= 1 && !is_private;
}

/// For a moment others look at the lock, too.
bool lock_now(int fd) {
  for (int i = 0; i < kTries; ++i) {
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

/// One line, whatever somebody wrote there.
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

/// Somebody has the log of an attempt as output.
bool is_log_held(const std::string& folder) {
  const Result<HeldFolder> held = open_levels(folder, kLevels);
  if (!held) return false;
  const UniqueFd fd(::openat(held->fd(), FolderLock::kLog,
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
  // With a second name it may be somebody's file, whose text is nobody's business.
  const ssize_t size = is_lock_file(st) ? ::pread(fd, name.data(), name.size(), 0) : 0;
  if (size <= 0) return process_words(st);
  return printable(std::string_view(name.data(), static_cast<std::size_t>(size)));
}

bool is_remote(const std::string& folder) {
  const Result<bool> remote = on_network_filesystem(folder);
  return remote && *remote;
}

enum class Kind { File, HiddenFolder, Itself };
/// What is locked to have a folder.
struct Place {
  std::string path = {};
  Kind kind = Kind::File;
  bool is_beside = false;
};

/// A place by the folder that it lies in, or by itself: the folder is walked to once.
struct HeldPlace {
  HeldFolder folder;
  std::string name = {};
  Kind kind = Kind::File;
};
Result<HeldPlace> hold(const Place& place) {
  const bool is_itself = place.kind == Kind::Itself;
  Result<HeldFolder> folder = open_levels(is_itself ? place.path : parent_of(place.path),
                                          place.is_beside ? kLevels - 1 : kLevels);
  if (!folder) return std::move(folder).error();
  return HeldPlace{.folder = *std::move(folder),
                   .name = is_itself ? std::string(".") : name_of(place.path),
                   .kind = place.kind};
}

/// Where an open folder lies; resolving its path could follow a link that another user has put
/// there meanwhile.
std::string location_of(const HeldFolder& folder) {
  const std::string link = "/proc/self/fd/" + std::to_string(folder.fd());
  std::array<char, PATH_MAX> buffer = {};
  const ssize_t size = ::readlink(link.c_str(), buffer.data(), buffer.size());
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

/// The names under which a folder lies in its parent: its path's, and the one that a link leads to.
std::vector<std::string> names_of(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::vector<std::string> names;
  const std::string last = folder.substr(folder.rfind('/') + 1);
  const bool is_name = !last.empty() && last != "." && last != "..";
  if (is_name) names.push_back(folder);
  struct stat st = {};
  const bool is_there = ::lstat(folder.c_str(), &st) == 0;
  if (is_name && (!is_there || !S_ISLNK(st.st_mode))) return names;
  const Result<HeldFolder> held = open_levels(folder, kLevels);
  if (!held) return names;
  std::string real = location_of(*held);
  if (real.starts_with('/') && real != "/") names.push_back(std::move(real));
  return names;
}

/// In the order in which they are locked.
std::vector<Place> places_of(const std::string& folder, bool remote) {
  std::vector<Place> places;
  for (const std::string& name : names_of(folder)) {
    places.push_back(
        {.path = parent_of(name) + "/" + FolderLock::kName + "." + name.substr(name.rfind('/') + 1),
         .kind = remote ? Kind::HiddenFolder : Kind::File,
         .is_beside = true});
  }
  if (remote) {
    places.push_back({.path = folder, .kind = Kind::Itself});
  } else {
    places.push_back({.path = folder + "/" + FolderLock::kName});
  }
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
  const int folder = place.folder.fd();
  const char* name = place.name.c_str();
  Opened out{UniqueFd(::openat(folder, name, O_RDWR | create | kFlags, kMode))};
  if (out.fd || (errno != EACCES && errno != EPERM)) return out;
  const int denied = errno;
  // Its maker's umask may keep us out until the maker has set the mode.
  for (int i = 0; i < kTries; ++i) {
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
  switch (place.kind) {
    case Kind::File:
      return open_file(place, use);
    case Kind::HiddenFolder:
      if (use == Use::Take) (void)::mkdirat(place.folder.fd(), place.name.c_str(), kFolderMode);
      return {UniqueFd(::openat(place.folder.fd(), place.name.c_str(), kFolder)), false};
    case Kind::Itself:
      return {UniqueFd(::openat(place.folder.fd(), ".", kFolder)), false};
  }
  return {};
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

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// By its whole path, as others will walk to it.
bool leads_to(const Place& place, const struct stat& st) {
  const Result<HeldPlace> now = hold(place);
  if (!now) return false;
  const Result<std::optional<struct stat>> named = now->folder.look_at(now->name);
  return named && *named && is_same(**named, st);
}

/// REQUIRES: the caller has its lock, or it can't be locked.
void remove(const HeldPlace& place) {
  if (place.kind == Kind::File) ::unlinkat(place.folder.fd(), place.name.c_str(), 0);
  if (place.kind == Kind::HiddenFolder)
    ::unlinkat(place.folder.fd(), place.name.c_str(), AT_REMOVEDIR);
}
void remove(const Place& place) {
  if (const Result<HeldPlace> held = hold(place); held) remove(*held);
}

/// No descriptor: a look has found nothing there that could be locked.
Result<UniqueFd> lock_place(const Place& place, Use use, std::string_view holder) {
  for (int round = 0; round < kRounds; ++round) {
    const Result<HeldPlace> there = hold(place);
    if (!there) return there.error();
    Opened opened = open_place(*there, use);
    if (!opened.fd && use == Use::Look && errno == ENOENT) return UniqueFd();
    if (!opened.fd) return os_error("open " + place.path);
    const int fd = opened.fd.get();
    if (!lock_now(fd)) {
      if (errno == EWOULDBLOCK) {
        return Error{ErrorKind::Busy, EWOULDBLOCK, holder_of(fd, place.path)};
      }
      const Error error = os_error("lock " + place.path);
      if (place.is_beside && cannot_lock_files(error)) remove(*there);
      return error;
    }
    struct stat st = {};
    if (::fstat(fd, &st) < 0) return os_error("stat " + place.path);
    if (place.kind == Kind::File && !is_lock_file(st)) {
      return Error{ErrorKind::Denied, EINVAL,
                   place.path +
                       " isn't a lock file of pergpu: it isn't a regular file, has a "
                       "second name, or is a private file; move it away"};
    }
    if (!leads_to(place, st)) continue;  // its holder has removed it
    if (use == Use::Look) return std::move(opened.fd);
    const bool is_ours = st.st_uid == ::geteuid();
    if (place.kind == Kind::HiddenFolder && is_ours) (void)::fchmod(fd, kFolderMode);
    if (place.kind != Kind::File) return std::move(opened.fd);
    const bool can_write = is_ours && opened.is_writable;
    if (can_write) write_name(fd, st, holder);
    // With somebody else's file the lock is as good, but would show the name of who had it before.
    const bool may_replace = !can_write && round + 1 < kRounds;
    if (may_replace && ::unlinkat(there->folder.fd(), there->name.c_str(), 0) == 0) continue;
    return std::move(opened.fd);
  }
  return Error{ErrorKind::Busy, EWOULDBLOCK, "several processes in turn"};
}

/// Both for who takes a folder and for who looks whether it could be taken: if they didn't ask for
/// the same locks, a job would be started and refused again and again.
Result<std::vector<UniqueFd>> lock_folder(const std::string& folder, Use use,
                                          std::string_view holder) {
  const bool remote = is_remote(folder);
  std::vector<UniqueFd> fds;
  std::vector<Place> held;
  const auto give_back = [&](Error error) {
    for (const Place& place : held) remove(place);
    return error;
  };
  for (const Place& place : places_of(folder, remote)) {
    Result<UniqueFd> fd = lock_place(place, use, holder);
    const bool is_inside = place.kind == Kind::File && !place.is_beside;
    if (!fd && is_inside && cannot_lock_files(fd.error())) {
      fd = lock_place({.path = folder, .kind = Kind::Itself}, use, holder);
    }
    if (!fd) {
      if (place.is_beside && fd.error().kind != ErrorKind::Busy) continue;  // the other must do
      return give_back(std::move(fd).error());
    }
    if (use == Use::Look) continue;
    fds.push_back(*std::move(fd));
    if (place.is_beside) held.push_back(place);
  }
  if (!remote && is_log_held(folder)) {
    return give_back({ErrorKind::Busy, EWOULDBLOCK, kLogHeld});
  }
  return fds;
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, std::string_view holder) {
  Result<std::vector<UniqueFd>> fds = lock_folder(folder, Use::Take, holder);
  if (!fds) return std::move(fds).error();
  return FolderLock(*std::move(fds));
}

std::optional<std::string> holder_of_folder(const std::string& folder) {
  const Result<std::vector<UniqueFd>> fds = lock_folder(folder, Use::Look, {});
  if (fds || fds.error().kind != ErrorKind::Busy) return std::nullopt;
  return fds.error().message;
}

void lock_log(int fd) {
  struct statfs fs = {};
  if (::fstatfs(fd, &fs) < 0 || is_network_filesystem(static_cast<std::uint64_t>(fs.f_type)))
    return;
  (void)lock_now(fd);
}

void tidy_folder(const std::string& folder) {
  for (const Place& place : places_of(folder, is_remote(folder))) {
    if (place.kind == Kind::Itself) continue;
    const Result<HeldPlace> there = hold(place);
    if (!there) continue;
    const UniqueFd fd(::openat(there->folder.fd(), there->name.c_str(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat st = {};
    if (!fd || !lock_now(fd.get()) || ::fstat(fd.get(), &st) < 0) continue;
    const bool is_its_kind = place.kind == Kind::HiddenFolder || is_lock_file(st);
    if (is_its_kind && leads_to(place, st)) remove(*there);
  }
}

}  // namespace pergpu::os
