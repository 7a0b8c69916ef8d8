// Memory without a name: what is reserved is there, what is sealed stays, and a private view hurts
// nobody.
#include "share/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace pergpu::share {
namespace {

constexpr std::uint64_t kSize = 3 * 4096 + 5;

Segment segment_with(const char* words) {
  Result<Segment> segment = Segment::create("test", kSize);
  EXPECT_TRUE(segment) << segment.error().message;
  Result<Mapping> mapping = segment->map(View::Shared);
  EXPECT_TRUE(mapping) << mapping.error().message;
  std::strcpy(reinterpret_cast<char*>(mapping->data()), words);
  return std::move(*segment);
}

const char* text(const Mapping& mapping) { return reinterpret_cast<const char*>(mapping.data()); }

TEST(Segment, IsReservedAndZero) {
  Result<Segment> segment = Segment::create("test", kSize);
  ASSERT_TRUE(segment) << segment.error().message;
  struct stat status = {};
  ASSERT_EQ(::fstat(segment->fd(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kSize));
  EXPECT_GE(status.st_blocks * 512, static_cast<off_t>(kSize));
  Result<Mapping> mapping = segment->map(View::ReadOnly);
  ASSERT_TRUE(mapping);
  for (std::size_t i = 0; i < kSize; ++i) ASSERT_EQ(mapping->data()[i], std::byte{0});
}

TEST(Segment, NobodyCanShortenIt) {
  Segment segment = segment_with("a");
  EXPECT_NE(::ftruncate(segment.fd(), 0), 0);
  EXPECT_NE(::ftruncate(segment.fd(), 1 << 20), 0);
}

TEST(Segment, NothingAndTooMuchAreRefused) {
  EXPECT_EQ(Segment::create("test", 0).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(Segment::create("test", ~std::uint64_t{0}).error().kind, ErrorKind::Invalid);
  Result<Segment> beyond = Segment::create("test", std::uint64_t{1} << 50);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::Full) << beyond.error().message;
}

TEST(Segment, SharedViewsSeeEachOther) {
  Segment segment = segment_with("before");
  Result<Mapping> one = segment.map(View::Shared);
  Result<Mapping> other = segment.map(View::Shared);
  ASSERT_TRUE(one && other);
  std::strcpy(reinterpret_cast<char*>(one->data()), "after");
  EXPECT_STREQ(text(*other), "after");
}

TEST(Segment, APrivateViewIsWritableAndHurtsNobody) {
  Segment segment = segment_with("before");
  ASSERT_TRUE(segment.seal());
  Result<Mapping> mine = segment.map(View::Private);
  Result<Mapping> other = segment.map(View::ReadOnly);
  ASSERT_TRUE(mine && other);
  std::strcpy(reinterpret_cast<char*>(mine->data()), "after");
  EXPECT_STREQ(text(*mine), "after");
  EXPECT_STREQ(text(*other), "before");
}

TEST(Segment, WhatIsKeptDoesNotChangeAnyMore) {
  Segment segment = segment_with("before");
  Mapping others = std::move(*segment.map(View::Shared));
  Mapping mine = std::move(*segment.map(View::Shared));
  std::memset(others.data() + 4096, 'a', kSize - 4096);
  ASSERT_TRUE(mine.keep(2 * 4096 - 1, 2));
  ASSERT_TRUE(mine.keep(kSize - 1, 1));
  std::memset(others.data() + 4096, 'b', kSize - 4096);
  std::strcpy(reinterpret_cast<char*>(others.data()), "after");
  EXPECT_STREQ(text(mine), "after");  // on a page of which nothing was kept
  for (std::size_t at = 4096; at < kSize; ++at) ASSERT_EQ(mine.data()[at], std::byte{'a'}) << at;
  mine.data()[4096] = std::byte{'c'};
  EXPECT_EQ(others.data()[4096], std::byte{'b'});
}

TEST(Segment, WhatIsSealedCannotBeWrittenByAnyWay) {
  Segment segment = segment_with("before");
  ASSERT_TRUE(segment.seal());
  EXPECT_EQ(segment.map(View::Shared).error().kind, ErrorKind::Denied);
  EXPECT_EQ(::mmap(nullptr, kSize, PROT_WRITE, MAP_SHARED, segment.fd(), 0), MAP_FAILED);
  EXPECT_LT(::pwrite(segment.fd(), "x", 1, 0), 0);
  EXPECT_TRUE(segment.seal()) << "again is no error";
}

TEST(Segment, IsNotSealedUnderAWriter) {
  Segment segment = segment_with("before");
  Result<Mapping> writer = segment.map(View::Shared);
  ASSERT_TRUE(writer);
  Result<void> sealed = segment.seal();
  ASSERT_FALSE(sealed);
  EXPECT_EQ(sealed.error().kind, ErrorKind::Busy);
  *writer = Mapping();
  writer = Error{};
  EXPECT_TRUE(segment.seal());
}

TEST(Segment, ADescriptorBringsAllThatIsKnownOfIt) {
  Segment segment = segment_with("here");
  ASSERT_TRUE(segment.seal());
  Result<Segment> adopted = Segment::adopt(os::UniqueFd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->size(), kSize);
  EXPECT_TRUE(adopted->sealed());
  EXPECT_STREQ(text(*adopted->map(View::ReadOnly)), "here");
}

TEST(Segment, ASealIsKnownToAllThatHaveIt) {
  Segment segment = segment_with("here");
  Result<Segment> other = Segment::adopt(os::UniqueFd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->sealed());
  pid_t child = ::fork();
  if (child == 0) ::_exit(segment.seal() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  for (const Segment* one : {&segment, &*other}) {
    EXPECT_TRUE(one->sealed());
    EXPECT_EQ(one->map(View::Shared).error().kind, ErrorKind::Denied);
  }
  EXPECT_TRUE(other->seal()) << "again is no error";
}

TEST(Segment, OneThatSomebodyMayStillWriteIsNotSealed) {
  Segment segment = segment_with("here");
  ASSERT_EQ(::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  EXPECT_FALSE(segment.sealed());
  ASSERT_TRUE(segment.seal());
  EXPECT_TRUE(segment.sealed());
}

TEST(Segment, WhatMayShrinkIsNotAdopted) {
  os::UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(Segment::adopt(std::move(plain)).error().kind, ErrorKind::Invalid);
  os::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(Segment::adopt(std::move(null)).error().kind, ErrorKind::Invalid);
}

TEST(Segment, HugePagesWhereThereAreAnyElseNormalOnes) {
  Result<Segment> segment = Segment::create("test", kSize, Pages::Huge);
  ASSERT_TRUE(segment) << segment.error().message;
  EXPECT_GE(segment->size(), kSize);
  Result<Mapping> mapping = segment->map(View::Shared);
  ASSERT_TRUE(mapping) << mapping.error().message;
  mapping->data()[kSize - 1] = std::byte{1};
}

}  // namespace
}  // namespace pergpu::share
