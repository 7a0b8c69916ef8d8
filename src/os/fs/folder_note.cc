// Inode, device and boot, each in decimal but the last: "131073 8 1 6f0c…".
#include "os/fs/folder_note.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ascii.h"
#include "number.h"
#include "os/fs/boot_id.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

struct Mark {
  std::uint64_t inode = 0;
  unsigned device_major = 0;
  unsigned device_minor = 0;
  std::string boot = {};
};

bool keeps_inodes(int folder) {
  struct statfs fs = {};
  if (::fstatfs(folder, &fs) < 0) return false;
  switch (static_cast<std::uint32_t>(fs.f_type)) {
    case 0x65735546:  // FUSE
    case 0x517B:      // SMB
    case 0xFE534D42:  // SMB 2
    case 0xFF534D42:  // CIFS
    case 0x01021997:  // 9p
      return false;
  }
  return true;
}

std::optional<Mark> mark_of(const HeldFolder& folder) {
  struct stat st = {};
  if (::fstat(folder.fd(), &st) < 0 || !keeps_inodes(folder.fd())) return std::nullopt;
  return Mark{.inode = st.st_ino,
              .device_major = major(st.st_dev),
              .device_minor = minor(st.st_dev),
              .boot = boot_id()};
}

std::optional<Mark> mark_in(const std::string& note) {
  const Result<std::string> text = read_file(note, 256);
  if (!text) return std::nullopt;
  const std::vector<std::string_view> words = split(trimmed(*text, "\n"), ' ');
  if (words.size() != 4) return std::nullopt;
  const auto inode = whole_number<std::uint64_t>(words[0]);
  const auto device_major = whole_number<unsigned>(words[1]);
  const auto device_minor = whole_number<unsigned>(words[2]);
  if (!inode || !device_major || !device_minor) return std::nullopt;
  return Mark{.inode = *inode,
              .device_major = *device_major,
              .device_minor = *device_minor,
              .boot = std::string(words[3])};
}

/// Devices may be numbered otherwise after a reboot; those without their own disk (NFS, btrfs,
/// tmpfs), by each mount.
bool is_same(const Mark& a, const Mark& b) {
  if (a.inode != b.inode) return false;
  if (a.boot != b.boot || a.device_major == 0 || b.device_major == 0) return true;
  return a.device_major == b.device_major && a.device_minor == b.device_minor;
}

}  // namespace

Result<void> note_folder(const HeldFolder& noted, const std::string& note) {
  const std::optional<Mark> mark = mark_of(noted);
  if (!mark) {
    ::unlink(note.c_str());
    return {};
  }
  const std::string folder = parent_of(note);
  (void)::mkdir(parent_of(folder).c_str(), 0700);
  if (::mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) return os_error("mkdir " + folder);
  const std::string text = std::to_string(mark->inode) + ' ' + std::to_string(mark->device_major) +
                           ' ' + std::to_string(mark->device_minor) + ' ' + mark->boot + '\n';
  return write_file_atomic(note, text, 0600, /*durable=*/false);
}

Result<void> note_new_folder(const HeldFolder& noted, const std::string& note) {
  // First this one: as long as a note is there, no other folder is taken for this one.
  Result<void> written = note_folder(noted, note);
  if (!written) ::unlink(note.c_str());
  const Result<std::vector<std::string>> names = list_dir(parent_of(note));
  if (!names) return written;
  for (const std::string& name : *names) {
    if (name != name_of(note)) ::unlink((parent_of(note) + "/" + name).c_str());
  }
  return written;
}

bool is_noted_folder(const HeldFolder& folder, const std::string& note) {
  const std::optional<Mark> noted = mark_in(note);
  if (!noted) return true;
  const std::optional<Mark> now = mark_of(folder);
  return !now || is_same(*noted, *now);
}

}  // namespace pergpu::os
