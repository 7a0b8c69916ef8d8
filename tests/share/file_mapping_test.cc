// Files as memory: from any offset, and never beyond the end.
#include "share/file_mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>

namespace pergpu::share {
namespace {

constexpr std::size_t kSize = 3 * 4096 + 5;

/// A file without a name whose byte i is i % 251.
os::UniqueFd counted() {
  std::string bytes;
  for (std::size_t i = 0; i < kSize; ++i) bytes.push_back(static_cast<char>(i % 251));
  os::UniqueFd fd(::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(kSize));
  return fd;
}

TEST(FileMapping, BeginsAtAnyByte) {
  os::UniqueFd fd = counted();
  for (std::size_t offset : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 12288UL, 12292UL}) {
    Result<FileMapping> part = FileMapping::map(fd.get(), offset, kSize - offset, View::ReadOnly);
    ASSERT_TRUE(part) << part.error().message;
    ASSERT_EQ(part->size(), kSize - offset);
    for (std::size_t i = 0; i < part->size(); ++i) {
      ASSERT_EQ(part->data()[i], std::byte((offset + i) % 251)) << offset << "+" << i;
    }
  }
}

TEST(FileMapping, WhatIsNotInTheFileIsRefused) {
  os::UniqueFd fd = counted();
  struct Part {
    std::uint64_t offset;
    std::size_t size;
  };
  for (Part part : {Part{0, kSize + 1}, Part{kSize, 1}, Part{1, kSize}, Part{0, 0},
                    Part{~std::uint64_t{0}, 2}, Part{2, ~std::size_t{0}}}) {
    Result<FileMapping> beyond = FileMapping::map(fd.get(), part.offset, part.size, View::Private);
    ASSERT_FALSE(beyond) << part.offset << " " << part.size;
    EXPECT_EQ(beyond.error().kind, ErrorKind::Invalid);
  }
}

TEST(FileMapping, OnlyOrdinaryFilesAreMapped) {
  os::UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(FileMapping::map(zero.get(), 0, 1, View::Private).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(FileMapping::map(-1, 0, 1, View::Private).error().os_errno, EBADF);
}

TEST(FileMapping, APrivateViewLeavesTheFileAsItIs) {
  os::UniqueFd fd = counted();
  Result<FileMapping> mine = FileMapping::map(fd.get(), 7, 10, View::Private);
  ASSERT_TRUE(mine);
  mine->data()[0] = std::byte{99};
  unsigned char byte = 0;
  ASSERT_EQ(::pread(fd.get(), &byte, 1, 7), 1);
  EXPECT_EQ(byte, 7);
}

TEST(FileMapping, ToWriteForAllTheFileMustBeOpenForThat) {
  os::UniqueFd fd = counted();
  std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  os::UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(FileMapping::map(reader.get(), 0, 1, View::Shared).error().kind, ErrorKind::Denied);
  EXPECT_TRUE(FileMapping::map(reader.get(), 0, 1, View::Private));
  EXPECT_TRUE(FileMapping::map(fd.get(), 0, 1, View::Shared));
}

}  // namespace
}  // namespace pergpu::share
