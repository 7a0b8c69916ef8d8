// openat2(2) opens a path without links at once; else the folders are opened one by one.
//
// The mode of a new folder is set by its descriptor, and only if that is the folder that was made:
// it is made with the sticky bit, which none of our empty folders has by chance, and the bit is
// then taken away.
#include "os/fs/folder_walk.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <utility>
#include <vector>

#include "ascii.h"
#include "os/fs/file.h"
#include "os/fs/path_names.h"
#include "os/kernel.h"
#include "os/random.h"
#include "os/system_calls.h"

namespace pergpu::os {
namespace {

constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;
/// Others may change names while we walk; they don't keep us for long.
constexpr int kMakeTries = 16;

/// Without a single link; -1: it can't be opened so, or the kernel can't.
int open_linkless(const std::string& path, int from = AT_FDCWD) {
  if (!kernel_has(KernelCall::OpenAt2)) return -1;
  const call::OpenHow how = {
      .flags = static_cast<std::uint64_t>(kFolder), .mode = 0, .resolve = call::kResolveNoSymlinks};
  return call::openat2(from, path.c_str(), how);
}

bool is_group_of_ours(gid_t group) {
  if (::geteuid() == 0 || group == ::getegid()) return true;
  std::vector<gid_t> groups(NGROUPS_MAX);
  const int count = ::getgroups(NGROUPS_MAX, groups.data());
  if (count < 0) return false;
  const auto end = groups.begin() + count;
  return std::find(groups.begin(), end, group) != end;
}

/// chmod by one who is in none of its groups takes set-group-id away.
bool loses_group_by_chmod(int folder) {
  struct stat st = {};
  if (::fstat(folder, &st) < 0) return true;
  return (st.st_mode & S_ISGID) != 0 && !is_group_of_ours(st.st_gid);
}

/// REQUIRES: the folder has just been opened for reading.
bool is_empty(int folder) {
  alignas(call::FolderEntry) char block[1024];
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, folder, block, sizeof block)) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const call::FolderEntry*>(block + at);
      const std::string_view name(entry->name);
      if (name != "." && name != "..") return false;
      at += entry->bytes;
    }
  }
  return size == 0;
}

/// What a new folder is made with until it has its mode: no user makes a private folder sticky.
constexpr mode_t kDraft = S_ISVTX;

struct MadeFolder {
  bool is_there = false;  // false: errno; EEXIST or a swapped name (ENOENT, ENOTDIR, ELOOP) is to
                          // be looked at again
  UniqueFd fd = {};       // the folder that was made; none: not known which one that is
};

/// Takes the draft's bit from an empty folder and gives it its mode.
MadeFolder finish_draft(UniqueFd made, const struct stat& st, mode_t mode) {
  const bool is_ours = st.st_uid == ::geteuid();
  const mode_t kept = st.st_mode & (S_ISUID | S_ISGID);
  // Root's folders on a file server belong to another user there.  This gives no user a right.
  const mode_t bits = is_ours ? kept | (mode & 07777) : (st.st_mode & 07777 & ~kDraft);
  if (::fchmod(made.get(), bits) < 0 && is_ours) return {};
  return {true, std::move(made)};
}

/// What this user makes in the folder belongs to `owner`, as the folder does: on a file server that
/// may be another user.
bool is_as_made(int folder, uid_t owner) {
  if (owner == ::geteuid()) return true;
  const std::optional<struct stat> file = new_file_in(folder);
  return file && file->st_uid == owner;
}

MadeFolder make_folder(int parent, const std::string& name, mode_t mode) {
  const bool keeps_mode = loses_group_by_chmod(parent);
  const mode_t bits = mode & 0777;
  if (::mkdirat(parent, name.c_str(), keeps_mode ? bits : bits | kDraft) < 0) return {};
  UniqueFd made(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st = {};
  // EACCES: the process's umask keeps even us out.
  if (!made && (errno == EACCES || keeps_mode)) return {.is_there = true};
  if (!made || ::fstat(made.get(), &st) < 0) return {};
  // Else it's another folder that has been given its name.
  if (!is_empty(made.get()) || !is_as_made(made.get(), st.st_uid)) return {.is_there = true};
  // File systems may keep no such bit, or give what root makes to another user.
  const bool has_mode = keeps_mode || (st.st_mode & kDraft) == 0;
  if (has_mode) return {true, std::move(made)};
  return finish_draft(std::move(made), st, mode);
}

/// A draft that a killed process of this user has left, private, sticky and empty, is finished;
/// then it is a new folder.
bool finish_left(int folder, mode_t mode) {
  struct stat st = {};
  if (::fstat(folder, &st) < 0 || st.st_uid != ::geteuid()) return false;
  if ((st.st_mode & 01777) != (kDraft | 0700)) return false;
  UniqueFd itself(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return itself && is_empty(itself.get()) && finish_draft(std::move(itself), st, mode).fd;
}

bool may_follow(uid_t owner) { return owner == 0 || owner == ::geteuid(); }

Error foreign_link(const std::string& link, uid_t owner) {
  return {ErrorKind::Denied, ELOOP,
          link + " is a symbolic link that belongs to uid " + std::to_string(owner) +
              "; pergpu doesn't follow links of other users. Remove it, or name the folder that it "
              "leads to"};
}

Error shared_link(const std::string& link) {
  return {ErrorKind::Denied, ELOOP,
          link +
              " is a symbolic link in a folder that other users or a group can write to, so they "
              "may have put it there; pergpu doesn't follow it. Remove it if it isn't yours; if it "
              "is, put a folder there, or let no one else write to the folders above it (chmod "
              "go-w)"};
}

/// True also if that can't be determined.
bool is_shared(int folder) {
  struct stat st = {};
  if (::fstat(folder, &st) < 0) return true;
  return !may_follow(st.st_uid) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

Result<std::string> target_of(int link, const std::string& path) {
  std::array<char, PATH_MAX> buffer = {};
  const ssize_t size = ::readlinkat(link, "", buffer.data(), buffer.size());
  if (size < 0) return os_error("read link " + path);
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

/// Opens the folders of a path one by one.
class PathWalk {
 public:
  PathWalk(Links links, std::optional<mode_t> make) : links_(links), make_(make) {}

  /// The last folder that was entered is one that this walk made.
  bool is_new() const { return is_new_; }

  /// From `fd` on, whose path is `at`.
  Result<UniqueFd> run(UniqueFd fd, std::string at, const std::string& path) {
    fd_ = std::move(fd);
    at_ = std::move(at);
    if (Result<void> begun = push(path); !begun) return std::move(begun).error();
    while (!rest_.empty()) {
      const std::string name = std::move(rest_.back());
      rest_.pop_back();
      if (Result<void> done = enter(name); !done) return std::move(done).error();
    }
    return std::move(fd_);
  }

 private:
  /// Puts the names of a path before what is left.
  Result<void> push(const std::string& path) {
    if (path.starts_with('/')) {
      fd_.reset(::open("/", kFolder));
      at_.clear();
    } else if (!fd_) {
      fd_.reset(::open(".", kFolder));
      at_ = ".";
    }
    if (!fd_) return os_error("open folder " + path);
    const std::vector<std::string> names = names_in(path);
    rest_.insert(rest_.end(), names.rbegin(), names.rend());
    return {};
  }

  Result<void> enter(const std::string& name) {
    const std::string path = at_ + "/" + name;
    for (int i = 0; i < kMakeTries; ++i) {
      UniqueFd next(::openat(fd_.get(), name.c_str(), kFolder | O_NOFOLLOW));
      if (next) return go_to(std::move(next), path, false);
      if (errno == ENOENT && make_) {
        MadeFolder made = make_folder(fd_.get(), name, *make_);
        if (made.fd) return go_to(std::move(made.fd), path, true);
        if (made.is_there || errno == EEXIST) continue;
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) continue;
        return os_error("mkdir " + path);
      }
      if (errno != ENOTDIR && errno != ELOOP) return os_error("open folder " + path);
      const UniqueFd link(::openat(fd_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat st = {};
      if (!link || ::fstat(link.get(), &st) < 0 || S_ISDIR(st.st_mode)) continue;
      if (S_ISLNK(st.st_mode)) return follow(link.get(), st.st_uid, path);
      if (!make_) return os_error("open folder " + path, ENOTDIR);
      return Error{ErrorKind::Invalid, ENOTDIR, "mkdir " + path + ": a file with that name exists"};
    }
    return os_error((make_ ? "mkdir " : "open folder ") + path, make_ ? EAGAIN : ENOENT);
  }

  Result<void> go_to(UniqueFd folder, const std::string& path, bool is_new) {
    if (links_ == Links::OursUntilShared) was_shared_ = was_shared_ || is_shared(fd_.get());
    fd_ = std::move(folder);
    at_ = path;
    is_new_ = is_new;
    return {};
  }

  Result<void> follow(int link, uid_t owner, const std::string& path) {
    if (links_ != Links::Anyones && !may_follow(owner)) return foreign_link(path, owner);
    was_shared_ = was_shared_ || is_shared(fd_.get());
    if (links_ == Links::OursUntilShared && was_shared_) return shared_link(path);
    if (++followed_ > kMostLinks) return os_error("open folder " + path, ELOOP);
    const Result<std::string> target = target_of(link, path);
    if (!target) return target.error();
    return push(*target);
  }

  Links links_;
  std::optional<mode_t> make_;
  UniqueFd fd_;
  std::string at_;                 // where fd_ is, for messages
  std::vector<std::string> rest_;  // names to enter, the next one last
  int followed_ = 0;
  bool is_new_ = false;
  bool was_shared_ = false;  // others can write to a folder that it came through
};

Result<UniqueFd> open_path(const std::string& path, Links links) {
  UniqueFd fd(links == Links::Anyones ? ::open(path.c_str(), kFolder) : open_linkless(path));
  if (fd) return fd;
  return PathWalk(links, std::nullopt).run({}, {}, path);
}

struct MadePath {
  UniqueFd fd = {};
  bool is_new = false;
};
Result<MadePath> finish(PathWalk walk, UniqueFd from, std::string at, const std::string& path) {
  Result<UniqueFd> fd = walk.run(std::move(from), std::move(at), path);
  if (!fd) return std::move(fd).error();
  return MadePath{.fd = *std::move(fd), .is_new = walk.is_new()};
}

/// REQUIRES: it was there.
MadePath found(UniqueFd fd, mode_t mode) {
  const bool is_new = finish_left(fd.get(), mode);
  return {.fd = std::move(fd), .is_new = is_new};
}

Result<MadePath> make_path(const std::string& path, mode_t mode, Links links) {
  UniqueFd fd(links == Links::Anyones ? ::open(path.c_str(), kFolder) : open_linkless(path));
  if (fd) return found(std::move(fd), mode);
  const int why = errno;
  const std::string parent = parent_of(path);
  const std::string name = name_of(path);
  const bool is_below = why == ENOENT && parent != "." && parent != path && !name.empty() &&
                        name != "." && name != "..";
  if (!is_below) return finish(PathWalk(links, mode), {}, {}, path);
  Result<MadePath> above = make_path(parent, mode, links);
  if (!above) return above;
  return finish(PathWalk(links, mode), std::move(above->fd), parent == "/" ? std::string() : parent,
                name);
}

bool goes_up(std::string_view path) {
  const std::vector<std::string_view> names = split(path, '/');
  return std::ranges::find(names, "..") != names.end();
}

/// Whether `path` names a folder below the one that it's relative to.
bool leads_below(std::string_view path) {
  return !path.empty() && path.front() != '/' && !goes_up(path) &&
         std::ranges::any_of(split(path, '/'), [](std::string_view name) { return name != "."; });
}

/// `path`: relative to the open folder `from`, which lies at `at`.
Result<UniqueFd> walk_from(int from, const std::string& at, const std::string& path,
                           std::optional<mode_t> make) {
  if (!leads_below(path))
    return Error{ErrorKind::Invalid, EINVAL, "open folder " + at + "/" + path};
  if (UniqueFd fd(open_linkless(path, from)); fd) {
    if (make) (void)finish_left(fd.get(), *make);
    return fd;
  }
  UniqueFd base(::openat(from, ".", kFolder));
  if (!base) return os_error("open folder " + at);
  return PathWalk(Links::OursUntilShared, make).run(std::move(base), at, path);
}

Result<void> write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write " + path);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

/// Network file systems report a full disk or quota only here.
Result<void> close_written(UniqueFd fd, const std::string& path) {
  if (::close(fd.release()) < 0 && errno != EINTR) return os_error("write " + path);
  return {};
}

/// ".<name>.<pid>.<count>.tmp"; the name is cut to fit NAME_MAX.
std::string temp_name(const std::string& name) {
  static std::atomic<unsigned> counter{0};
  return "." + name.substr(0, 200) + "." + std::to_string(::getpid()) + "." +
         std::to_string(counter.fetch_add(1, std::memory_order_relaxed)) + ".tmp";
}

constexpr int kNewFile = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

}  // namespace

Result<HeldFolder> HeldFolder::open(const std::string& path, Links links) {
  Result<UniqueFd> fd = open_path(path, links);
  if (!fd) return std::move(fd).error();
  return HeldFolder(*std::move(fd), path);
}

std::optional<HeldFolder> HeldFolder::open_linkless(const std::string& path) {
  UniqueFd fd(os::open_linkless(path));
  if (!fd) return std::nullopt;
  return HeldFolder(std::move(fd), path);
}

Result<HeldFolder> HeldFolder::make(const std::string& path, mode_t mode, Links links) {
  Result<MadePath> made = make_path(path, mode, links);
  if (!made) return std::move(made).error();
  return HeldFolder(std::move(made->fd), path);
}

Result<FoundFolder> HeldFolder::find_or_make(const std::string& path, mode_t mode) {
  Result<MadePath> made = make_path(path, mode, Links::OursOnly);
  if (!made) return std::move(made).error();
  return FoundFolder{.folder = HeldFolder(std::move(made->fd), path), .is_new = made->is_new};
}

std::string HeldFolder::path_of(std::string_view name) const {
  std::string path = path_;
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

Result<UniqueFd> HeldFolder::open_itself() const {
  UniqueFd fd(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("open folder " + path_);
  return fd;
}

Result<std::optional<struct stat>> HeldFolder::look_at(const std::string& name) const {
  struct stat st = {};
  if (::fstatat(fd_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) return std::optional(st);
  if (errno == ENOENT) return std::optional<struct stat>();
  return os_error("look at " + path_of(name));
}

Result<std::vector<std::string>> HeldFolder::names() const {
  Result<UniqueFd> itself = open_itself();
  if (!itself) return std::move(itself).error();
  return list_open_dir(*std::move(itself), path_);
}

Result<HeldFolder> HeldFolder::open_folder(const std::string& name) const {
  UniqueFd fd(::openat(fd_.get(), name.c_str(), kFolder | O_NOFOLLOW));
  if (!fd) return os_error("open folder " + path_of(name));
  return HeldFolder(std::move(fd), path_of(name));
}

Result<HeldFolder> HeldFolder::open_parent(const std::string& path) const {
  UniqueFd fd(::openat(fd_.get(), "..", kFolder));
  if (!fd) return os_error("open folder " + path);
  return HeldFolder(std::move(fd), path);
}

Result<HeldFolder> HeldFolder::open_below(const std::string& path) const {
  Result<UniqueFd> fd = walk_from(fd_.get(), path_, path, std::nullopt);
  if (!fd) return std::move(fd).error();
  return HeldFolder(*std::move(fd), path_of(path));
}

Result<HeldFolder> HeldFolder::make_below(const std::string& path, mode_t mode) const {
  Result<UniqueFd> fd = walk_from(fd_.get(), path_, path, mode);
  if (!fd) return std::move(fd).error();
  return HeldFolder(*std::move(fd), path_of(path));
}

Result<void> HeldFolder::write_new_file(const std::string& name, std::string_view content,
                                        mode_t mode) const {
  const std::string path = path_of(name);
  UniqueFd fd(::openat(fd_.get(), name.c_str(), kNewFile, 0600));
  if (!fd) return os_error("create " + path);
  Result<void> written = write_all(fd.get(), content, path);
  if (written && mode != 0600 && ::fchmod(fd.get(), mode) < 0) written = os_error("chmod " + path);
  if (written) written = close_written(std::move(fd), path);
  if (!written) ::unlinkat(fd_.get(), name.c_str(), 0);
  return written;
}

Result<void> HeldFolder::write_file_atomic(const std::string& name, std::string_view content,
                                           mode_t mode, bool durable) const {
  const std::string path = path_of(name);
  // One may be left of a killed process that had our pid.
  std::string temp;
  UniqueFd fd;
  do {
    temp = temp_name(name);
    fd.reset(::openat(fd_.get(), temp.c_str(), kNewFile, 0600));
  } while (!fd && errno == EEXIST);
  if (!fd) return os_error("create " + path_of(temp));

  const auto write = [&]() -> Result<void> {
    Result<void> written = write_all(fd.get(), content, path);
    if (!written) return written;
    if (mode != 0600 && ::fchmod(fd.get(), mode) < 0) return os_error("chmod " + path);
    if (durable && ::fsync(fd.get()) < 0) return os_error("fsync " + path);
    if (Result<void> closed = close_written(std::move(fd), path); !closed) return closed;
    return rename(temp, name);
  };
  Result<void> written = write();
  if (!written) {
    ::unlinkat(fd_.get(), temp.c_str(), 0);
    return written;
  }
  return durable ? sync() : Result<void>();
}

Result<void> HeldFolder::sync() const {
  const Result<UniqueFd> itself = open_itself();
  if (!itself) return itself.error();
  return ::fsync(itself->get()) == 0 ? Result<void>() : os_error("fsync folder " + path_);
}

Result<void> HeldFolder::rename(const std::string& from, const std::string& to) const {
  if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) == 0) return {};
  return os_error("rename " + path_of(from) + " to " + path_of(to));
}

Result<void> HeldFolder::remove_tree(const std::string& name) const {
  return remove_tree_in(fd_.get(), name, path_of(name));
}

std::optional<struct stat> new_file_in(int folder) {
  const std::string name = ".probe-" + random_hex(8);
  const UniqueFd made(::openat(folder, name.c_str(), kNewFile, 0600));
  if (!made) return std::nullopt;
  ::unlinkat(folder, name.c_str(), 0);
  struct stat st = {};
  if (::fstat(made.get(), &st) < 0) return std::nullopt;
  return st;
}

bool is_foreign_link(const Error& error) {
  return error.kind == ErrorKind::Denied && error.os_errno == ELOOP;
}

Result<HeldName> walk_through(const std::string& path) {
  std::string at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    Result<HeldName> file = walk_to(at);
    if (!file) return file;
    const int folder = file->folder.fd();
    const UniqueFd link(::openat(folder, file->name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat st = {};
    if (!link || ::fstat(link.get(), &st) < 0 || !S_ISLNK(st.st_mode)) return file;
    if (!may_follow(st.st_uid)) return foreign_link(at, st.st_uid);
    Result<std::string> target = target_of(link.get(), at);
    if (!target) return std::move(target).error();
    at = target->starts_with('/') ? *std::move(target) : parent_of(at) + "/" + *target;
  }
  return os_error("open " + path, ELOOP);
}

Result<HeldName> walk_to(const std::string& path) {
  Result<HeldFolder> folder = HeldFolder::open(parent_of(path));
  if (!folder) return std::move(folder).error();
  return HeldName{.folder = *std::move(folder), .name = name_of(path)};
}

Result<HeldName> walk_below(const std::string& root, const std::string& path) {
  Result<HeldFolder> held = open_below(root, parent_of(path));
  if (!held) return std::move(held).error();
  return HeldName{.folder = *std::move(held), .name = name_of(path)};
}

Result<HeldFolder> open_levels(const std::string& path, int levels) {
  std::string root = path;
  for (int i = 0; i < levels; ++i) root = parent_of(root);
  const std::string rest = path_below(root, path);
  // Those of results are resolved when they are submitted; no other user can put a ".." into a
  // path.
  if (rest.empty() || goes_up(rest)) return HeldFolder::open(path);
  return open_below(root, path);
}

Result<HeldFolder> open_below(const std::string& root, const std::string& path) {
  const std::string rest = path_below(root, path);
  if (leads_below(rest)) {
    // With no link on the way there is nothing to decide.
    if (std::optional<HeldFolder> held = HeldFolder::open_linkless(path)) return *std::move(held);
  }
  const Result<HeldFolder> base = HeldFolder::open(root);
  if (!base) return base.error();
  return base->open_below(rest);
}

Result<HeldFolder> make_below(const std::string& root, const std::string& path, mode_t mode) {
  const Result<HeldFolder> base = HeldFolder::make(root, mode);
  if (!base) return base.error();
  return base->make_below(path_below(root, path), mode);
}

Result<void> write_below(const std::string& root, const std::string& path, std::string_view content,
                         mode_t mode, bool durable) {
  const Result<HeldName> file = walk_below(root, path);
  if (!file) return file.error();
  return file->folder.write_file_atomic(file->name, content, mode, durable);
}

}  // namespace pergpu::os
