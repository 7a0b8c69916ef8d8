// Which errors are a disk's or a file server's that is full, read-only or failing.  It may be well
// again later, without a change of the job.  A path that is wrong (ENOENT, EACCES,
// ENAMETOOLONG) is none of them: waiting doesn't fix it.
#pragma once

#include <cerrno>

namespace pergpu {

constexpr bool is_storage_errno(int code) {
  switch (code) {
    case ENOSPC:  // blocks, or inodes
    case EDQUOT:
    case EROFS:
    case EIO:
    case ESTALE:
    case EREMOTEIO:
    case EUCLEAN:    // a file system has found itself damaged
    case ENOTCONN:   // of FUSE: its server has died
    case ETIMEDOUT:  // of NFS, mounted soft
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return true;
  }
  return false;
}

}  // namespace pergpu
