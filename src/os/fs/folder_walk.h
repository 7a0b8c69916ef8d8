// Folders in which others may rename things: walked by descriptors, never twice by a name.
//
// A name that was looked at may lead elsewhere by the time it is used.  So each folder of a path is
// opened in the one above it, once, and what follows is done in the open folder (openat, mkdirat,
// renameat, fchmod).  Symlinks on the way are followed only if this user or root owns them, much as
// by the kernel's protected_symlinks: another user's may lead to files that only this user can
// reach.  Others can also move a link of this user, so open_below() and make_below() follow none
// where others can write.
//
// Thread: every function may be called on any thread.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

enum class Links : std::uint8_t {
  OursOnly,         // of this user and of root
  OursUntilShared,  // the same, as long as no folder on the way can be written to by others
  Anyones,          // where no other user can write
};

struct FoundFolder;

/// A folder that is held open: it stays the same one, whatever its name leads to by now.
class HeldFolder {
 public:
  /// is_foreign_link(error): a link of another user is in the way; the message names it.
  static Result<HeldFolder> open(const std::string& path, Links links = Links::OursOnly);
  /// Without a single link on the way; nullopt: that's not possible.
  static std::optional<HeldFolder> open_linkless(const std::string& path);
  /// Makes what is missing of the path; new folders get `mode` (set-group-id is inherited).
  static Result<HeldFolder> make(const std::string& path, mode_t mode,
                                 Links links = Links::OursOnly);
  /// As make(), and returns whether the last folder of the path was there.
  static Result<FoundFolder> find_or_make(const std::string& path, mode_t mode);

  /// For the …at() calls only (O_PATH).
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const;

  // Names are those of entries: without a slash.

  /// For flock, fsync and reading its entries.
  Result<UniqueFd> open_itself() const;
  /// Of the entry itself, links not followed; nullopt: it isn't there.
  Result<std::optional<struct stat>> look_at(const std::string& name) const;
  /// Of all entries, sorted.
  Result<std::vector<std::string>> names() const;
  /// A folder in it; a link is refused, even one of this user.
  Result<HeldFolder> open_folder(const std::string& name) const;
  /// The folder that this one lies in now.  `path`: its path, for messages.
  Result<HeldFolder> open_parent(const std::string& path) const;
  /// `path`: relative, without "..".  Links of this user and of root are followed only as long as
  /// no other user can write to a folder from this one on down: others may have moved them there.
  /// is_foreign_link(error) for a link that isn't followed.
  Result<HeldFolder> open_below(const std::string& path) const;
  /// The same, and makes what is missing; new folders get `mode`.
  Result<HeldFolder> make_below(const std::string& path, mode_t mode) const;
  /// For a file that doesn't exist yet; os_errno EEXIST when it does.  A reader may see a part of
  /// it, also after a crash: compare before relying on it.
  Result<void> write_new_file(const std::string& name, std::string_view content, mode_t mode) const;
  /// As write_file_atomic() of os/fs/file.h.
  Result<void> write_file_atomic(const std::string& name, std::string_view content, mode_t mode,
                                 bool durable) const;
  /// The names in it are on disk.
  Result<void> sync() const;
  Result<void> rename(const std::string& from, const std::string& to) const;
  /// As remove_tree() of os/fs/file.h.
  Result<void> remove_tree(const std::string& name) const;

 private:
  HeldFolder(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

/// What HeldFolder::find_or_make() returns.
struct FoundFolder {
  HeldFolder folder;
  bool is_new = false;  // made by this call, or a draft that a killed one left
};

/// What a private file looks like that this user makes in an open folder: some file systems give
/// all files to one user, or one mode.  nullopt: none can be made.
std::optional<struct stat> new_file_in(int folder);

/// The error is a link that isn't followed; its message is a whole sentence.
bool is_foreign_link(const Error& error);

/// A file by its folder and its name there.
struct HeldName {
  HeldFolder folder;
  std::string name = {};
};
/// The file needn't be there.
Result<HeldName> walk_to(const std::string& path);
/// The same of a path below `root`: what is below it is walked by HeldFolder::open_below().
Result<HeldName> walk_below(const std::string& root, const std::string& path);
/// As walk_to(), of what `path` leads to, if it's a link: what is done with the name then isn't
/// done through a link that was planted meanwhile.
Result<HeldName> walk_through(const std::string& path);

/// An absolute path of which the last `levels` folders may lie where others can write: those are
/// walked by HeldFolder::open_below().
Result<HeldFolder> open_levels(const std::string& path, int levels);
/// `path` lies below `root`: what is below it is walked by HeldFolder::open_below().
Result<HeldFolder> open_below(const std::string& root, const std::string& path);
/// Makes `path`, which lies below `root`, and the root, if need be: what is below the root is
/// walked by HeldFolder::make_below().
Result<HeldFolder> make_below(const std::string& root, const std::string& path, mode_t mode);

/// write_file_atomic() into a folder that others may write to; `path` as for walk_below().
Result<void> write_below(const std::string& root, const std::string& path, std::string_view content,
                         mode_t mode, bool durable);

}  // namespace pergpu::os
