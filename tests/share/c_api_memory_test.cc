// The C interface where there is no memory left: an error, and whoever owned something still does.
// The allocator of this program fails when a test says so.
#include <fcntl.h>
#include <pergpu_share.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "share/rig.h"

namespace {

constexpr int kAny = -1;
thread_local int left = kAny;  // so many allocations succeed

void* allocated(std::size_t size) {
  if (left == 0) return nullptr;
  if (left > 0) --left;
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

// Both that the library calls, and all that give back what these gave.
void* operator new(std::size_t size) {
  void* at = allocated(size);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocated(size); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }

namespace pergpu::share {
namespace {

/// What `call()` returns where so many allocations succeed, and no more.
template <typename Call>
std::int32_t with_allocations(int count, Call&& call) {
  left = count;
  std::int32_t code = call();
  left = kAny;
  return code;
}

TEST(CApiWithoutMemory, IsAnErrorAndADescriptorStaysTheCallers) {
  pergpu_share_memory* memory = nullptr;
  ASSERT_EQ(pergpu_share_memory_create("test", 5000, 0, &memory, nullptr), 0);
  pergpu_share_memory_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(pergpu_share_memory_describe(memory, &info, nullptr), 0);
  int good = ::fcntl(info.fd, F_DUPFD_CLOEXEC, 0);
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (auto [fd, at_last] : {std::pair{good, PERGPU_SHARE_OK}, {null, PERGPU_SHARE_INVALID}}) {
    pergpu_share_memory* adopted = nullptr;
    std::int32_t code = PERGPU_SHARE_FULL;
    for (int count = 0; code == PERGPU_SHARE_FULL; ++count) {
      ASSERT_LT(count, 20);
      EXPECT_GE(::fcntl(fd, F_GETFD), 0) << count;
      pergpu_share_error error = {};
      code = with_allocations(
          count, [&, fd = fd] { return pergpu_share_memory_adopt(fd, &adopted, &error); });
      if (code == PERGPU_SHARE_FULL) {
        EXPECT_STREQ(error.message, "out of memory");
      }
      EXPECT_TRUE(count > 0 || code == PERGPU_SHARE_FULL);
    }
    EXPECT_EQ(code, at_last);
    EXPECT_EQ(adopted != nullptr, at_last == PERGPU_SHARE_OK);
    EXPECT_GE(::fcntl(fd, F_GETFD), 0);
    pergpu_share_memory_free(adopted);
  }
  ::close(null);
  pergpu_share_memory_free(memory);
}

}  // namespace
}  // namespace pergpu::share
