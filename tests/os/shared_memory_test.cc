// Memory without a name: told from everything else, and found with whoever has it.
#include "os/ipc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "fixture.h"

namespace pergpu::os {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;

/// Of a name that no other test, and no other run of this one, looks for.
std::string own_name(const std::string& what) {
  return "test-" + std::to_string(::getpid()) + "-" + what;
}

UniqueFd memory(const std::string& name, int seals = kFixedSize) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), 8192), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedMemory, SaysWhatItIs) {
  const std::string name = own_name("it");
  const std::int64_t before = RealClock().now().wall_ns;
  const UniqueFd fd = memory(name);
  const Result<SharedMemory> found = memory_of(fd.get());
  ASSERT_TRUE(found) << found.error().message;
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_EQ(found->id, (MemoryId{.device = status.st_dev, .inode = status.st_ino}));
  EXPECT_EQ(found->name, name);
  EXPECT_EQ(found->bytes, 8192u);
  constexpr std::int64_t kTick = 20'000'000;  // of the clock that files are dated by
  EXPECT_GE(found->made_wall_ns, before - kTick);
}

TEST(SharedMemory, WhatIsSomethingElseIsRefusedAndSaysWhy) {
  const TempDir dir;
  const auto why = [](int fd) {
    const Result<SharedMemory> found = memory_of(fd);
    return found ? "accepted" : found.error().message;
  };
  EXPECT_NE(why(memory("a", F_SEAL_SHRINK).get()).find("size is not sealed"), std::string::npos);
  EXPECT_NE(why(memory("a", F_SEAL_GROW).get()).find("size is not sealed"), std::string::npos);
  const UniqueFd file(::open((dir / "memfd:a (deleted)").c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_NE(why(file.get()).find("isn't shared memory"), std::string::npos);
  const auto [one, other] = socket_pair();
  EXPECT_NE(why(one.get()).find("cannot be sealed"), std::string::npos);
  EXPECT_NE(why(-1).find("cannot be sealed"), std::string::npos);
}

TEST(SharedMemory, IsFoundOnceWithEachProcessThatHasItOpenOrMapped) {
  const std::string name = own_name("found");
  UniqueFd fd = memory(name);
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // has it mapped only
    void* at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 4096);
    fd.reset();
    (void)!::write(ready[1], at == MAP_FAILED ? "" : "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');

  const std::vector<HeldMemory> all = find_memory(name, LookAt::MappingsToo);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].memory.id, memory_of(fd.get())->id);
  EXPECT_EQ(all[0].memory.bytes, 8192u);
  std::vector<pid_t> pids;
  for (const MemoryHolder& holder : all[0].holders) pids.push_back(holder.pid);
  std::ranges::sort(pids);
  EXPECT_EQ(pids, (std::vector<pid_t>{std::min(::getpid(), child), std::max(::getpid(), child)}));
  const std::vector<HeldMemory> open = find_memory(name, LookAt::OpenFiles);
  ASSERT_EQ(open.size(), 1u);
  ASSERT_EQ(open[0].holders.size(), 1u);
  EXPECT_EQ(open[0].holders[0].fd, fd.get());

  fd.reset();  // the child's mapping is all there is of it
  const std::vector<HeldMemory> mapped = find_memory(name, LookAt::MappingsToo);
  ASSERT_EQ(mapped.size(), 1u);
  EXPECT_EQ(mapped[0].memory.id, all[0].memory.id);
  EXPECT_EQ(mapped[0].memory.bytes, 8192u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(find_memory(name, LookAt::MappingsToo).empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(SharedMemory, IsOpenedByWhoHasItAndNothingElseIs) {
  UniqueFd fd = memory(own_name("open"));
  const MemoryId id = memory_of(fd.get())->id;
  const MemoryHolder holder{.pid = ::getpid(), .fd = fd.get()};
  const std::optional<UniqueFd> again = open_memory(holder, id);
  ASSERT_TRUE(again);
  EXPECT_EQ(memory_of(again->get())->id, id);
  EXPECT_FALSE(open_memory(holder, {.device = id.device, .inode = id.inode + 1}));
  const int number = fd.get();
  fd.reset();
  EXPECT_FALSE(open_memory({.pid = ::getpid(), .fd = number}, id));
}

TEST(SharedMemory, LinesOfMapsAreReadStrictly) {
  const std::string good =
      "7f00c000-7f01c000 rw-p 00002000 00:01 4711    /memfd:pergpu:data-0af3 (deleted)";
  const std::optional<MappedMemory> found = mapped_memory_in(good, "pergpu:");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, (MemoryId{.device = makedev(0, 1), .inode = 4711}));
  EXPECT_EQ(found->name, "pergpu:data-0af3");
  EXPECT_EQ(found->end, 0x12000u);
  EXPECT_FALSE(mapped_memory_in(good, "other:"));
  for (const char* bad :
       {"", "/memfd:pergpu:a (deleted)", "7f00c000 rw-p 0 00:01 4711 /memfd:pergpu:a (deleted)",
        "7f00c000-7f01c000 rw-p 0 1 4711 /memfd:pergpu:a (deleted)",
        "7f00c000-x rw-p 0 00:01 4711 /memfd:pergpu:a (deleted)",
        "7f00c000-7f01c000 rw-p 0 00:01 4711 /memfd:pergpu:a",
        "7f00c000-7f01c000 rw-p 0 00:01 4711 /run/memfd:pergpu:a (deleted)",
        "7f00c000-7f01c000 rw-p 0 00:01 4711 [heap]"}) {
    EXPECT_FALSE(mapped_memory_in(bad, "pergpu:")) << bad;
  }
}

}  // namespace
}  // namespace pergpu::os
