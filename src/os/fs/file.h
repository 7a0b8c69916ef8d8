// Whole-file operations, which follow every link on the way: for folders that others may write to
// there are os/fs/folder_walk.h and os/fs/written_file.h.  Modes are exact: the process's umask
// plays no part (pergpu serves sweeps that have their own umasks; the caller passes `0666 &
// ~umask`).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

// Reading does not wait: a FIFO in a file's place is empty or an error.

/// The whole content.  ErrorKind::Invalid when it is longer than `limit` bytes.
Result<std::string> read_file(const std::string& path, std::size_t limit);

/// At most the last `bytes` bytes.
Result<std::string> read_tail(const std::string& path, std::size_t bytes);

/// The same of an open file; `path` is for messages.
Result<std::string> read_open_file(int fd, const std::string& path, std::size_t limit);
Result<std::string> read_open_tail(int fd, const std::string& path, std::size_t bytes);

/// Temp file beside `path`, then rename: a reader sees the old content or the new one, never a
/// part. `durable`: file and folder are synced, so that the new content survives a power cut.
Result<void> write_file_atomic(const std::string& path, std::string_view content, mode_t mode,
                               bool durable);

/// One write() into a file that is there and stays as it is (a control file of the kernel, which
/// takes or refuses a value as a whole).
Result<void> write_kernel_file(const std::string& path, std::string_view value);

/// Makes `path` and its missing parents; new ones get `mode` (set-group-id is inherited).
Result<void> make_dirs(const std::string& path, mode_t mode);

/// fsync of a folder: the names in it are on disk.
Result<void> sync_dir(const std::string& path);

/// Which file this is, and whether it changed.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};
/// Follows symlinks.
Result<FileIdentity> file_identity(const std::string& path);

// These three follow symlinks; "cannot be looked at" counts as no.
bool exists(const std::string& path);
bool is_regular(const std::string& path);
bool is_directory(const std::string& path);

/// Names in a folder, sorted, without "." and "..".
Result<std::vector<std::string>> list_dir(const std::string& path);
/// The same of an open folder; `path` is for messages.
Result<std::vector<std::string>> list_open_dir(UniqueFd fd, const std::string& path);

/// Removes a file or a folder with everything in it; symlinks are removed, never followed.  A path
/// that does not exist is success.
Result<void> remove_tree(const std::string& path);

/// The same of an entry of an open folder; `path` is for messages.
Result<void> remove_tree_in(int folder, const std::string& name, const std::string& path);

/// Whether `path` (or its nearest existing parent) lies on a file system that other machines may
/// mount too: NFS, Lustre, GPFS, SMB/CIFS, BeeGFS, AFS, Ceph, 9p.
Result<bool> on_network_filesystem(const std::string& path);
/// The same for an f_type of statfs(2).
bool is_network_filesystem(std::uint64_t magic);

/// "/a/b" -> "/a"; "b" -> "."; "/a" -> "/".
std::string parent_of(const std::string& path);
/// "/a/b" -> "b"; "b" -> "b"; "/" -> "".
std::string name_of(const std::string& path);

/// Of this process: whether a new file is for others is its user's choice.
mode_t current_umask();

}  // namespace pergpu::os
