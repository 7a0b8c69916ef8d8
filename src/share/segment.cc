// Seals do the work here: SHRINK and GROW from the start, WRITE when the content is complete.  They
// belong to the memory and not to a descriptor, so the kernel is asked what holds at this moment. A
// kernel before 6.7 does not let anybody map a write-sealed memfd as shared, not even to read it;
// there a reader gets a private mapping, which shares the same pages until it writes.
#include "share/segment.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <utility>

#include "os/kernel.h"
#include "os/process/free_memory.h"
#include "os/system_calls.h"

namespace pergpu::share {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;

std::string words(std::uint64_t size) { return std::to_string(size) + " bytes of memory"; }

/// The kernel would not refuse: it would kill a process.
Result<void> there_is_room(std::uint64_t size) {
  std::uint64_t free = os::free_memory();
  if (size <= free) return {};
  return Error{ErrorKind::Full, ENOMEM,
               "reserve " + words(size) + ": " + std::to_string(free) + " are free"};
}

/// Reserved: the error number, 0 when it was done.
int reserve(int fd, std::uint64_t size) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return errno;
  int failed = 0;
  do {
    failed = ::fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  return failed;
}

Result<os::UniqueFd> make(const std::string& name, std::uint64_t size, unsigned flags) {
  os::UniqueFd fd(os::call::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd && !os::kernel_has(os::KernelCall::MemfdCreate)) {
    return Error{ErrorKind::Unavailable, errno,
                 "make " + words(size) +
                     ": the kernel has no memfd_create (Linux 3.17), or a filter forbids it; "
                     "without it no memory can be shared"};
  }
  if (!fd) return os_error("make " + words(size));
  if (int failed = reserve(fd.get(), size); failed != 0) {
    Error error = os_error("reserve " + words(size), failed);
    if (failed == ENOMEM) error.kind = ErrorKind::Full;
    return error;
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kFixedSize) != 0) return os_error("seal " + words(size));
  return fd;
}

}  // namespace

Result<Mapping> Mapping::map(int fd, std::uint64_t offset, std::size_t size, View view) {
  int protection = view == View::ReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  int kind = view == View::Private ? MAP_PRIVATE : MAP_SHARED;
  void* at = ::mmap(nullptr, size, protection, kind, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED && view == View::ReadOnly && errno == EPERM) {
    at = ::mmap(nullptr, size, protection, MAP_PRIVATE, fd, static_cast<off_t>(offset));
  }
  if (at == MAP_FAILED) return os_error("map " + words(size));
  return Mapping(static_cast<std::byte*>(at), size);
}

Result<Mapping> Mapping::own(std::size_t size) {
  if (Result<void> room = there_is_room(size); !room) return std::move(room).error();
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return os_error("reserve " + words(size));
  ::madvise(at, size, MADV_HUGEPAGE);  // some kernels have none
  return Mapping(static_cast<std::byte*>(at), size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<void> Mapping::keep(std::size_t offset, std::size_t size) const {
  auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* begin = data_ + offset / page * page;
  std::size_t whole = (offset % page + size + page - 1) / page * page;
  void* copy = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return os_error("keep " + words(size));
  std::memcpy(copy, begin, whole);
  // One step: who reads there meanwhile waits in the kernel, and finds the same.
  if (::mremap(copy, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == MAP_FAILED) {
    Error error = os_error("keep " + words(size));
    ::munmap(copy, whole);
    return error;
  }
  return {};
}

Result<Segment> Segment::create(std::string_view name, std::uint64_t size, Pages pages) {
  constexpr std::uint64_t kMost = std::numeric_limits<off_t>::max() - kHugePage;
  if (size == 0 || size > kMost) {
    return Error{ErrorKind::Invalid, EINVAL, words(size) + " can't be allocated"};
  }
  std::string full_name = "pergpu:" + std::string(name.substr(0, 200));
  if (pages == Pages::Huge) {
    std::uint64_t whole = (size + kHugePage - 1) / kHugePage * kHugePage;
    Result<os::UniqueFd> fd = make(full_name, whole, MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd) return Segment(std::move(*fd), whole, Pages::Huge);
  }
  if (Result<void> room = there_is_room(size); !room) return std::move(room).error();
  Result<os::UniqueFd> fd = make(full_name, size, 0);
  if (!fd) return std::move(fd).error();
  return Segment(std::move(*fd), size, Pages::Normal);
}

Result<Segment> Segment::adopt(os::UniqueFd&& fd) {
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kFixedSize) != kFixedSize) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "the descriptor isn't a segment: memory created by pergpu has a fixed size"};
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return os_error("look at a segment");
  Pages pages =
      status.st_blksize >= static_cast<blksize_t>(kHugePage) ? Pages::Huge : Pages::Normal;
  return Segment(std::move(fd), static_cast<std::uint64_t>(status.st_size), pages);
}

Result<void> Segment::seal() {
  if (sealed()) return {};
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0) return {};
  Error error = os_error("seal the content of " + words(size_));
  if (sealed()) return {};  // by another process, in this moment
  return error;
}

bool Segment::sealed() const {
  // Not F_SEAL_FUTURE_WRITE: who had it mapped before goes on writing.
  int seals = ::fcntl(fd_.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

Result<Mapping> Segment::map(View view) const {
  if (view == View::Shared && sealed()) {
    return Error{ErrorKind::Denied, EPERM,
                 "the segment is sealed, so it can't be mapped for shared writing"};
  }
  return Mapping::map(fd_.get(), 0, static_cast<std::size_t>(size_), view);
}

}  // namespace pergpu::share
