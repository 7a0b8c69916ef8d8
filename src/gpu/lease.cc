// Files and the folder appear under their names with their final modes (made under another name,
// then renamed without replacing): a user's umask or a kill between two calls must not leave a lock
// that others cannot open, and no other user may ever see a half-made folder and choose another
// one.
//
// The folder is walked to again for each use, and what is done there is done in the folder that was
// found: another user who may rename it could put a link to a private folder in its place.
#include "gpu/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/fs/lock_holder.h"
#include "os/fs/new_name.h"

namespace pergpu::gpu {

namespace {

constexpr mode_t kFolderMode = 01777;
constexpr mode_t kFileMode = 0644;
constexpr mode_t kModeBits = 07777;
constexpr char kMendAdvice[] =
    "; make it a folder with `chmod 1777`, or set PERGPU_LOCKS to another one for all users";

bool open_to_all(mode_t mode) { return (mode & kFolderMode) == kFolderMode; }

std::string draft_name(const std::string& path) {
  static int counter = 0;
  return fmt::format("{}.new.{}.{}", path, ::getpid(), ++counter);
}

// What has to be done first, with "or" behind it; "": nothing.
std::string room_advice(int error, const std::string& folder) {
  if (error == ENOSPC || error == EDQUOT) return fmt::format("free space in {}, or ", folder);
  if (error == EROFS) {
    return fmt::format("mount {} read-write (in a container: the host's), or ", folder);
  }
  return {};
}

// For calls that take paths.  Where `folder` is by now, or what lies in its place, doesn't matter.
std::string within(const os::HeldFolder& folder, const std::string& name) {
  return fmt::format("/proc/self/fd/{}/{}", folder.fd(), name);
}

Error no_folder_there(const std::string& path) {
  return {ErrorKind::Denied, 0, fmt::format("lock folder {} is not a folder{}", path, kMendAdvice)};
}

// The lock folder itself; a link in its place is refused, even one of this user.
Result<os::HeldFolder> hold(const std::string& path) {
  const Result<os::HeldName> place = os::walk_to(path);
  if (!place) return place.error();
  Result<os::HeldFolder> held = place->folder.open_folder(place->name);
  const int code = held ? 0 : held.error().os_errno;
  if (code == ENOTDIR || code == ELOOP) return no_folder_there(path);
  return held;
}

// By a descriptor: where others can rename it, the name may lead to a private folder by now.
Result<void> open_to_all_users(const std::string& at, const std::string& path, mode_t expected) {
  const os::UniqueFd fd(::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found = {};
  if (!fd || ::fstat(fd.get(), &found) != 0) return os_error("open folder " + path);
  if (found.st_uid != ::geteuid() || (found.st_mode & kFolderMode) != expected) {
    return Error{ErrorKind::Denied, 0, fmt::format("folder {} was replaced by another one", path)};
  }
  if (::fchmod(fd.get(), kFolderMode) != 0) return os_error("chmod 1777 " + path);
  return {};
}

// Makes `path` with mode 1777; another process's folder of the same name is success.
Result<void> make_folder(const std::string& path) {
  constexpr mode_t kDraftMode = S_ISVTX | 0700;  // a user's private folders have no sticky bit
  const auto cannot_make = [&path](int code) {
    Error error = os_error("create lock folder " + path, code);
    error.message += "; " + room_advice(error.os_errno, os::parent_of(path)) +
                     "ask an administrator to create it with mode 1777 for all users";
    return error;
  };
  const Result<os::HeldName> place = os::walk_to(path);
  if (!place && os::is_foreign_link(place.error())) return place.error();
  if (!place) return cannot_make(place.error().os_errno);
  const std::string made = within(place->folder, place->name);
  const std::string draft = draft_name(made);
  if (::mkdir(draft.c_str(), kDraftMode) != 0) return cannot_make(errno);
  Error error;
  if (Result<void> opened = open_to_all_users(draft, path, kDraftMode); !opened) {
    error = std::move(opened).error();
  } else if (os::give_new_name(draft, made)) {
    return {};
  } else {
    error = os_error("create lock folder " + path);
  }
  ::rmdir(draft.c_str());
  if (error.os_errno == EEXIST) return {};
  return error;
}

Result<void> make_file(const os::HeldFolder& folder, const std::string& name) {
  const std::string path = folder.path_of(name);
  const std::string made = within(folder, name);
  const std::string draft = draft_name(made);
  os::UniqueFd fd(
      ::open(draft.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!fd) {
    Error error = os_error("create lock file " + path);
    const std::string advice = room_advice(error.os_errno, os::parent_of(path));
    if (!advice.empty()) {
      error.message += "; " + advice + "set PERGPU_LOCKS to another folder for all users";
    }
    return error;
  }
  Error error;
  if (::fchmod(fd.get(), kFileMode) != 0) {
    error = os_error("chmod 644 " + path);
  } else if (os::give_new_name(draft, made)) {
    return {};
  } else {
    error = os_error("make lock file " + path);
  }
  ::unlink(draft.c_str());
  if (error.os_errno == EEXIST) return {};
  return error;
}

// A UUID becomes a file name: "GPU-…", "MIG-…".
Result<void> check_uuid(const std::string& uuid) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (!uuid.empty() && uuid.size() <= 96 && std::ranges::all_of(uuid, fits)) return {};
  return Error{ErrorKind::Invalid, 0,
               fmt::format("\"{}\" isn't a GPU UUID: expected letters, digits and '-'", uuid)};
}

// `fd` is a regular file with one link, and the one of that name.
Result<void> check_file(int fd, const os::HeldFolder& folder, const std::string& name) {
  const std::string path = folder.path_of(name);
  struct stat opened = {};
  if (::fstat(fd, &opened) != 0) return os_error("stat of the open lock file " + path);
  if (!S_ISREG(opened.st_mode)) {
    return Error{ErrorKind::Corrupt, 0,
                 fmt::format("lock file {} is not a regular file (mode {:o}); remove it", path,
                             opened.st_mode)};
  }
  const Result<std::optional<struct stat>> named = folder.look_at(name);
  if (!named) return named.error();
  if (!*named) return os_error("stat " + path, ENOENT);
  if (opened.st_dev != (*named)->st_dev || opened.st_ino != (*named)->st_ino) {
    return Error{ErrorKind::NotFound, 0, fmt::format("lock file {} was replaced", path)};
  }
  if (opened.st_nlink != 1) {
    return Error{
        ErrorKind::Corrupt, 0,
        fmt::format("lock file {} has {} names instead of 1 (a hard link to it); remove the "
                    "others",
                    path, opened.st_nlink)};
  }
  return {};
}

// Opened read-only, made when missing.  O_NONBLOCK: a FIFO of that name must not stop us.
Result<os::UniqueFd> open_file(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  // The folder may have to be made, then the file, and either can appear or be replaced meanwhile.
  constexpr int kLast = 3;
  for (int round = 0;; ++round) {
    const Result<os::HeldFolder> held = hold(folder);
    if (!held) {
      if (held.error().kind != ErrorKind::NotFound || round == kLast) return held.error();
      // The whole folder may have been cleaned away.
      Result<void> made = make_folder(folder);
      if (!made) return std::move(made).error();
      continue;
    }
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    os::UniqueFd fd(::openat(held->fd(), name.c_str(), kFlags));
    if (fd) {
      Result<void> checked = check_file(fd.get(), *held, name);
      if (checked) return fd;
      if (checked.error().kind != ErrorKind::NotFound || round == kLast) {
        return std::move(checked).error();
      }
      continue;
    }
    Error error = os_error("open lock file " + path);
    if (error.os_errno == EACCES) {
      error.message +=
          "; every user must be able to read it: ask its owner or root to run chmod 644";
    }
    if (error.os_errno == ELOOP) error.message += "; it's a symbolic link: remove it";
    if (error.os_errno != ENOENT || round == kLast) return error;
    Result<void> made = make_file(*held, name);
    const bool is_gone = !made && made.error().kind == ErrorKind::NotFound;
    if (!made && !is_gone) return std::move(made).error();
  }
}

// Whether the lock folder `path` can be relied on.  `is_own_choice`: $PERGPU_LOCKS may name a
// private folder, for one user and for tests.  `may_mend`: our own is opened to all.
Result<void> check_folder(const std::string& path, bool is_own_choice, bool may_mend = true) {
  const Result<os::HeldName> place = os::walk_to(path);
  if (!place) return place.error();
  const Result<std::optional<struct stat>> there = place->folder.look_at(place->name);
  if (!there) return there.error();
  if (!*there) return os_error("lock folder " + path, ENOENT);
  const struct stat& found = **there;
  if (!S_ISDIR(found.st_mode)) return no_folder_there(path);
  if (open_to_all(found.st_mode)) return {};
  const bool ours = found.st_uid == ::geteuid();
  if (is_own_choice && ours && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  if (!is_own_choice && ours && may_mend &&
      open_to_all_users(within(place->folder, place->name), path, found.st_mode & kFolderMode)) {
    return {};
  }
  return Error{ErrorKind::Denied, 0,
               fmt::format("lock folder {} has mode {:o} of uid {} instead of 1777{}", path,
                           found.st_mode & kModeBits, found.st_uid, kMendAdvice)};
}

constexpr const char* kFolders[] = {"/run/lock/pergpu", "/var/lock/pergpu",
                                    "/dev/shm/pergpu-locks"};

Error no_folder() {
  return {ErrorKind::Unavailable, 0,
          "no folder for GPU locks: neither /run/lock, /var/lock nor /dev/shm is open to all "
          "users; set PERGPU_LOCKS to one folder (mode 1777) for all users"};
}

Error no_other_folder(Error why) {
  why.message +=
      ". pergpu doesn't use another folder instead, because users with locks in different folders "
      "could use the same GPU at the same time";
  return why;
}

// The last name of a path is looked up in the folder above.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool every_user_could_make_one_in(const std::string& parent) {
  struct stat found = {};
  return ::stat(parent.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         open_to_all(found.st_mode);
}

// Whether `path` is the one that all users take: it exists, or any of them could make it.  An error
// is one that others need not have.
Result<bool> is_for_all(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) return no_other_folder(os_error("lock folder " + path));
  return every_user_could_make_one_in(os::parent_of(path));
}

}  // namespace

Result<LeaseFolder> LeaseFolder::open() {
  const char* chosen = std::getenv("PERGPU_LOCKS");
  if (chosen != nullptr && *chosen != '\0') return open_at(chosen);
  return open_first({std::begin(kFolders), std::end(kFolders)});
}

Result<LeaseFolder> LeaseFolder::open_first(const std::vector<std::string>& places) {
  for (const std::string& path : places) {
    // Root could make one where others cannot: then they would lie in two folders.
    const Result<bool> is_it = is_for_all(path);
    if (!is_it) return is_it.error();
    if (!*is_it) continue;
    if (!os::exists(path)) {
      if (Result<void> made = make_folder(path); !made) {
        return no_other_folder(std::move(made).error());
      }
    }
    if (Result<void> fits = check_folder(path, false); !fits) return std::move(fits).error();
    return LeaseFolder(path);
  }
  return no_folder();
}

Result<std::optional<LeaseFolder>> LeaseFolder::find() {
  const char* chosen = std::getenv("PERGPU_LOCKS");
  const bool is_own_choice = chosen != nullptr && *chosen != '\0';
  std::vector<std::string> paths(std::begin(kFolders), std::end(kFolders));
  if (is_own_choice) paths = {without_slash(chosen)};
  for (const std::string& path : paths) {
    const Result<bool> is_it = is_for_all(path);
    if (!is_it) return is_it.error();
    if (!*is_it && !is_own_choice) continue;
    struct stat found = {};
    if (::lstat(path.c_str(), &found) != 0) return std::optional<LeaseFolder>();
    if (Result<void> fits = check_folder(path, is_own_choice, false); !fits) {
      return std::move(fits).error();
    }
    return std::optional<LeaseFolder>(LeaseFolder(path));
  }
  return no_folder();
}

Result<LeaseFolder> LeaseFolder::open_at(const std::string& path) {
  const std::string folder = without_slash(path);
  struct stat found = {};
  if (::lstat(folder.c_str(), &found) != 0) {
    if (errno != ENOENT) return os_error("lock folder " + folder);
    if (Result<void> made = make_folder(folder); !made) return std::move(made).error();
  }
  if (Result<void> fits = check_folder(folder, true); !fits) return std::move(fits).error();
  return LeaseFolder(folder);
}

Result<os::UniqueFd> LeaseFolder::open_lock(const std::string& uuid) const {
  if (Result<void> fits = check_uuid(uuid); !fits) return std::move(fits).error();
  return open_file(path_, uuid);
}

Result<os::UniqueFd> LeaseFolder::open_wanted(const std::string& uuid) const {
  if (Result<void> fits = check_uuid(uuid); !fits) return std::move(fits).error();
  return open_file(path_, uuid + ".wanted");
}

Result<Lease> LeaseFolder::try_lock(const std::string& uuid, os::UniqueFd& fd) const {
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return Error{ErrorKind::Busy, EWOULDBLOCK, fmt::format("{} is used by another", uuid)};
    }
    return os_error(fmt::format("lock {}/{}", path_, uuid));
  }
  const Result<os::HeldFolder> held = hold(path_);
  if (Result<void> checked = held ? check_file(fd.get(), *held, uuid) : held.error(); !checked) {
    fd.reset();  // a lock on a file that no other process can find is none
    return std::move(checked).error();
  }
  return Lease(uuid, std::move(fd));
}

Result<Lease> LeaseFolder::take(const std::string& uuid) const {
  for (int round = 0;; ++round) {
    Result<os::UniqueFd> fd = open_lock(uuid);
    if (!fd) return std::move(fd).error();
    Result<Lease> lease = try_lock(uuid, *fd);
    if (lease || lease.error().kind != ErrorKind::NotFound || round == 2) return lease;
  }
}

Result<Lease> LeaseFolder::adopt(const std::string& uuid, os::UniqueFd fd) const {
  if (Result<void> fits = check_uuid(uuid); !fits) return std::move(fits).error();
  // Locking again what one holds already changes nothing; it fails if another one has the lock.
  return try_lock(uuid, fd);
}

bool LeaseFolder::contended(const std::string& uuid) const {
  Result<os::UniqueFd> fd = open_wanted(uuid);
  return fd && ::flock(fd->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

uid_t LeaseFolder::owner() const {
  struct stat found = {};
  return ::lstat(path_.c_str(), &found) == 0 ? found.st_uid : 0;
}

// Nothing is opened: closing a lock file wakes all who wait for it.
std::string LeaseFolder::fault(const std::string& uuid) const {
  for (const std::string& name : {uuid, uuid + ".wanted"}) {
    const std::string path = path_ + "/" + name;
    struct stat found = {};
    if (!check_uuid(uuid) || ::lstat(path.c_str(), &found) != 0) continue;
    if (!S_ISREG(found.st_mode)) return fmt::format("{} is not a regular file", path);
    if (found.st_nlink != 1) return fmt::format("{} has {} names", path, found.st_nlink);
    if ((found.st_mode & 0444) != 0444) {
      return fmt::format("{} has mode {:o}: not every user can read it", path,
                         found.st_mode & kModeBits);
    }
  }
  return {};
}

LeaseHolder LeaseFolder::holder(const std::string& uuid) const {
  struct stat file = {};
  if (!check_uuid(uuid) || ::lstat((path_ + "/" + uuid).c_str(), &file) != 0) return {};
  std::optional<os::LockHolder> found = os::find_lock_holder(file);
  if (!found) return {};
  return {.pid = found->pid, .uid = found->uid, .program = std::move(found->program)};
}

bool is_pergpu(const LeaseHolder& holder) {
  return holder.program.empty() || holder.program.starts_with("pergpu");
}

std::string lease_words(const LeaseHolder& holder, uid_t me, const std::string& user_name) {
  if (!holder.uid) {
    return "used by a process that isn't visible here: another user's, or in another container";
  }
  const bool is_mine = *holder.uid == me;
  if (!is_pergpu(holder)) {
    return fmt::format("locked by {}, process {} of {}, which isn't pergpu", holder.program,
                       holder.pid.value_or(0), is_mine ? "your user" : user_name);
  }
  if (is_mine) {
    return fmt::format("held by your other pergpu (pid {})", holder.pid.value_or(0));
  }
  return fmt::format("used by {} (pergpu)", user_name);
}

}  // namespace pergpu::gpu
