// A writer is killed with SIGKILL at random moments: the next one finds every acknowledged batch,
// whole and in order.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "os/fd.h"
#include "store/harness.h"

namespace pergpu {
namespace {

using namespace testing_store;

// Appends batches of two events numbered first, first + 1, … and writes each number to `acks` once
// it is durable.  Runs until it is killed.
[[noreturn]] void write_for_ever(const std::string& path, int first, int acks) {
  Result<std::unique_ptr<Store>> store = open_sqlite_store(path);
  if (!store) ::_exit(3);
  if (!(*store)->load([](const Row&) { return Result<void>(); })) ::_exit(4);
  const auto ack = [acks](int number) {
    return [acks, number](Result<void> result) {
      if (!result) ::_exit(5);
      if (::write(acks, &number, sizeof number) != sizeof number) ::_exit(6);
    };
  };
  if (first == 0) (*store)->append(small_sweep(), {});
  for (int number = first;; ++number) {
    Batch batch = one(held(std::to_string(number)));
    batch.push_back(held(std::to_string(number)));
    (*store)->append(std::move(batch), ack(number));
    if (number % 7 == 0 && !drain_next(**store)) ::_exit(7);
  }
}

TEST(StoreKill, NoAcknowledgedBatchIsLost) {
  const Folder folder;
  const std::string path = folder / "store.db";
  std::mt19937 random(7);
  int next = 0;
  int last_acknowledged = -1;
  for (int cycle = 0; cycle < 15; ++cycle) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    os::UniqueFd acks(ends[0]);
    os::UniqueFd writer_end(ends[1]);
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) write_for_ever(path, next, writer_end.get());
    writer_end.reset();

    const int wanted = std::uniform_int_distribution<int>(1, 200)(random);
    int number = -1;
    for (int i = 0; i < wanted && ::read(acks.get(), &number, sizeof number) == sizeof number;
         ++i) {
      last_acknowledged = number;
    }
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
    while (::read(acks.get(), &number, sizeof number) == sizeof number) last_acknowledged = number;

    const std::unique_ptr<Store> survivor = must_open(path);
    const std::vector<std::string> found = reasons(*survivor);
    ASSERT_EQ(found.size() % 2, 0u) << "half a batch";
    ASSERT_GT(static_cast<int>(found.size() / 2), last_acknowledged);
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], std::to_string(i / 2));
    next = static_cast<int>(found.size() / 2);
  }
}

TEST(StoreKill, KilledWhileTheStoreIsMade) {
  std::mt19937 random(11);
  for (int cycle = 0; cycle < 15; ++cycle) {
    const Folder folder;
    const pid_t maker = ::fork();
    ASSERT_GE(maker, 0);
    if (maker == 0) {
      (void)open_sqlite_store(folder / "store.db");
      ::_exit(0);
    }
    // Any moment will do: the number of turns spent here is what varies.
    volatile unsigned turns = std::uniform_int_distribution<unsigned>(0, 3'000'000)(random);
    while (turns > 0) turns = turns - 1;
    ::kill(maker, SIGKILL);
    ASSERT_EQ(::waitpid(maker, nullptr, 0), maker);
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    EXPECT_TRUE(rows_of(*store).empty());
    EXPECT_TRUE(commit(*store, small_sweep()));
  }
}

}  // namespace
}  // namespace pergpu
