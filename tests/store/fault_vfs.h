// A layer between SQLite and the disk that can fail writes and syncs, and that knows what a power
// cut at this moment could leave behind: for each file its content at the last sync, with any
// subset of the later writes.  Lives as SQLite's default VFS while the object exists.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace pergpu::testing_store {

class FaultVfs {
 public:
  FaultVfs() {
    real_ = sqlite3_vfs_find("unix");
    vfs_ = *real_;
    vfs_.zName = "fault";
    vfs_.pAppData = this;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.xOpen = &FaultVfs::open;
    vfs_.xDelete = &FaultVfs::remove;
    sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
  }
  ~FaultVfs() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, /*makeDflt=*/1);
  }
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  /// From now on only so many bytes can be written; then SQLITE_FULL.
  void set_room(std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    room_ = bytes;
  }
  void set_syncs_fail(bool fail) {
    const std::lock_guard<std::mutex> lock(mutex_);
    syncs_fail_ = fail;
  }

  /// What a power cut now could leave of `folder`, written to `copy`.
  void cut_power(const std::string& folder, const std::string& copy, std::mt19937& random) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [path, disk] : disks_) {
      const std::filesystem::path file_path(path);
      if (file_path.parent_path() != folder) continue;
      std::string bytes = disk.synced;
      for (const Write& write : disk.unsynced) {
        if (std::uniform_int_distribution<int>(0, 1)(random) == 0) continue;
        if (bytes.size() < write.offset + write.bytes.size()) {
          bytes.resize(write.offset + write.bytes.size());
        }
        bytes.replace(write.offset, write.bytes.size(), write.bytes);
      }
      std::ofstream(copy + "/" + file_path.filename().string(), std::ios::binary) << bytes;
    }
  }

 private:
  struct Write {
    std::size_t offset = 0;
    std::string bytes;
  };
  struct Disk {
    std::string synced;
    std::vector<Write> unsynced;
  };
  struct File {
    sqlite3_file base;
    FaultVfs* owner;
    const char* path;  // SQLite keeps it alive as long as the file is open
    sqlite3_file* real;
  };

  static File* file(sqlite3_file* f) { return reinterpret_cast<File*>(f); }
  static sqlite3_file* real(sqlite3_file* f) { return file(f)->real; }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* f, int flags, int* out_flags) {
    auto* self = static_cast<FaultVfs*>(vfs->pAppData);
    File* opened = file(f);
    opened->base.pMethods = nullptr;
    opened->owner = self;
    opened->path = path;
    opened->real = reinterpret_cast<sqlite3_file*>(opened + 1);
    const int code = self->real_->xOpen(self->real_, path, opened->real, flags, out_flags);
    if (code != SQLITE_OK) return code;
    opened->base.pMethods = &kMethods;
    if (path != nullptr) {
      const std::lock_guard<std::mutex> lock(self->mutex_);
      std::ifstream in(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      self->disks_.try_emplace(path, Disk{bytes, {}});
    }
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* path, int sync_folder) {
    auto* self = static_cast<FaultVfs*>(vfs->pAppData);
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->disks_.erase(path);
    return self->real_->xDelete(self->real_, path, sync_folder);
  }
  static int close(sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); }
  static int read(sqlite3_file* f, void* to, int size, sqlite3_int64 offset) {
    return real(f)->pMethods->xRead(real(f), to, size, offset);
  }
  static int write(sqlite3_file* f, const void* from, int size, sqlite3_int64 offset) {
    FaultVfs* self = file(f)->owner;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    if (self->room_ < size) return SQLITE_FULL;
    self->room_ -= size;
    if (file(f)->path != nullptr) {
      self->disks_[file(f)->path].unsynced.push_back(
          {static_cast<std::size_t>(offset),
           std::string(static_cast<const char*>(from), static_cast<std::size_t>(size))});
    }
    return real(f)->pMethods->xWrite(real(f), from, size, offset);
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    FaultVfs* self = file(f)->owner;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    return real(f)->pMethods->xTruncate(real(f), size);
  }
  static int sync(sqlite3_file* f, int flags) {
    FaultVfs* self = file(f)->owner;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    if (self->syncs_fail_) return SQLITE_IOERR_FSYNC;
    const int code = real(f)->pMethods->xSync(real(f), flags);
    if (code == SQLITE_OK && file(f)->path != nullptr) {
      Disk& disk = self->disks_[file(f)->path];
      for (const Write& w : disk.unsynced) {
        if (disk.synced.size() < w.offset + w.bytes.size()) {
          disk.synced.resize(w.offset + w.bytes.size());
        }
        disk.synced.replace(w.offset, w.bytes.size(), w.bytes);
      }
      disk.unsynced.clear();
    }
    return code;
  }
  static int size(sqlite3_file* f, sqlite3_int64* out) {
    return real(f)->pMethods->xFileSize(real(f), out);
  }
  static int lock(sqlite3_file* f, int level) { return real(f)->pMethods->xLock(real(f), level); }
  static int unlock(sqlite3_file* f, int level) {
    return real(f)->pMethods->xUnlock(real(f), level);
  }
  static int is_reserved(sqlite3_file* f, int* out) {
    return real(f)->pMethods->xCheckReservedLock(real(f), out);
  }
  static int control(sqlite3_file* f, int op, void* arg) {
    return real(f)->pMethods->xFileControl(real(f), op, arg);
  }
  static int sector(sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); }
  static int traits(sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); }

  // Version 1: no shared memory, which the store's exclusive locking does not need.
  static inline const sqlite3_io_methods kMethods = {.iVersion = 1,
                                                     .xClose = &FaultVfs::close,
                                                     .xRead = &FaultVfs::read,
                                                     .xWrite = &FaultVfs::write,
                                                     .xTruncate = &FaultVfs::truncate,
                                                     .xSync = &FaultVfs::sync,
                                                     .xFileSize = &FaultVfs::size,
                                                     .xLock = &FaultVfs::lock,
                                                     .xUnlock = &FaultVfs::unlock,
                                                     .xCheckReservedLock = &FaultVfs::is_reserved,
                                                     .xFileControl = &FaultVfs::control,
                                                     .xSectorSize = &FaultVfs::sector,
                                                     .xDeviceCharacteristics = &FaultVfs::traits,
                                                     .xShmMap = nullptr,
                                                     .xShmLock = nullptr,
                                                     .xShmBarrier = nullptr,
                                                     .xShmUnmap = nullptr,
                                                     .xFetch = nullptr,
                                                     .xUnfetch = nullptr};

  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_ = {};
  std::mutex mutex_;
  std::map<std::string, Disk> disks_;                             // guarded by mutex_
  std::int64_t room_ = std::numeric_limits<std::int64_t>::max();  // guarded by mutex_
  bool syncs_fail_ = false;                                       // guarded by mutex_
};

}  // namespace pergpu::testing_store
