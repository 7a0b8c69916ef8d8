"""failing_disk.py FOLDER MOUNT ORDERS: a file system at MOUNT with what is in FOLDER.  While there is
a file ORDERS, what writes fails by the error that it names, such as EIO, and ORDERS.hit is made."""
import errno
import os
import sys

from fusepy import FUSE, FuseOSError, Operations


class FailingDisk(Operations):
    def __init__(self, folder, orders):
        self.folder, self.orders = folder, orders

    def __call__(self, operation, path, *rest):
        if operation in WRITES and not (operation == "open" and rest[0] & os.O_ACCMODE == os.O_RDONLY):
            self.obey()
        return getattr(self, operation)(path, *rest)

    def obey(self):
        try:
            with open(self.orders) as f:
                name = f.read()
        except FileNotFoundError:
            return
        with open(self.orders + ".hit", "a"):
            pass
        raise FuseOSError(getattr(errno, name))

    def at(self, path):
        return self.folder + path

    def getattr(self, path, handle=None):
        of = os.lstat(self.at(path)) if handle is None else os.fstat(handle)
        return {name: getattr(of, name) for name in (
            "st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_atime", "st_mtime", "st_ctime")}

    def readdir(self, path, handle):
        return [".", "..", *os.listdir(self.at(path))]

    def readlink(self, path):
        return os.readlink(self.at(path))

    def statfs(self, path):
        of = os.statvfs(self.at(path))
        return {name: getattr(of, name) for name in (
            "f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax")}

    def open(self, path, flags):
        return os.open(self.at(path), flags & ~os.O_NOFOLLOW)

    def read(self, path, size, offset, handle):
        return os.pread(handle, size, offset)

    def release(self, path, handle):
        os.close(handle)

    def create(self, path, mode, info=None):
        return os.open(self.at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def write(self, path, data, offset, handle):
        return os.pwrite(handle, data, offset)

    def truncate(self, path, length, handle=None):
        os.truncate(self.at(path) if handle is None else handle, length)

    def fsync(self, path, only_data, handle):
        os.fsync(handle)

    def mknod(self, path, mode, device):
        os.mknod(self.at(path), mode, device)

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def unlink(self, path):
        os.unlink(self.at(path))

    def symlink(self, path, target):
        os.symlink(target, self.at(path))

    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def chown(self, path, user, group):
        os.chown(self.at(path), user, group)

    def utimens(self, path, times=None):
        os.utime(self.at(path), times)


WRITES = {"open", "create", "write", "truncate", "fsync", "mknod", "mkdir", "rmdir", "unlink", "symlink", "rename", "chmod", "chown"}

if __name__ == "__main__":
    folder, mount, orders = sys.argv[1:]
    FUSE(FailingDisk(folder, orders), mount, foreground=True, nothreads=True, default_permissions=True, allow_other=True)
