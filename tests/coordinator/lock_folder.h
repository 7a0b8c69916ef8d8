// A folder of leases for one test, apart from the machine's own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "gpu/lease.h"
#include "os/fs/file.h"

namespace pergpu::testing {

class LockFolder {
 public:
  LockFolder() {
    std::string name = ::testing::TempDir() + "locks.XXXXXX";
    path_ = ::mkdtemp(name.data());
    ::setenv("PERGPU_LOCKS", (path_ + "/l").c_str(), 1);
  }
  ~LockFolder() {
    ::unsetenv("PERGPU_LOCKS");
    (void)os::remove_tree(path_);
  }
  LockFolder(const LockFolder&) = delete;
  LockFolder& operator=(const LockFolder&) = delete;

  /// As another user sees it: locks belong to open files, not to processes.
  gpu::LeaseFolder other_user() const { return std::move(*gpu::LeaseFolder::open()); }

 private:
  std::string path_;
};

}  // namespace pergpu::testing
