// Processes that send and receive as fast as they can, while any of them is killed or stopped at
// any moment.
//
//   kills [--kills N] [--seed N]
//
// Two producers and two consumers; who is killed is replaced.  After each kill everybody must pass
// an item on within ten seconds; nobody who lives may be called dead, no item torn.  Every 100
// kills the channel is brought to its end, all slots are counted, and the next one begins.  At the
// end nothing is left: no descriptor, no mapping.
#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "os/process/proc.h"
#include "share/rig.h"

namespace pergpu::share {
namespace {

constexpr std::uint32_t kEach = 2;  // producers, and consumers
constexpr std::size_t kSlotBytes = 4096;

// Words of shared memory: one a worker for its beat, then these.
enum : std::size_t { kStop = 8, kTorn, kFalseAlarms, kTold, kItems, kTimes };

void add_time(Shared& shared, std::int64_t ns) {
  Word& longest = shared[kTimes];
  auto us = static_cast<std::uint32_t>(ns / 1000);
  std::uint32_t known = longest.load();
  while (known < us && !longest.compare_exchange_weak(known, us)) {
  }
}

/// Whether somebody was rightly called dead; and how long that took, from the time in `killed_at`.
void check_death(const Peer& peer, Shared& shared, const std::atomic<std::int64_t>& killed_at) {
  ++shared[kTold];
  std::optional<os::ProcStat> stat = os::read_stat(static_cast<pid_t>(peer.pid));
  if (stat && !stat->ended()) ++shared[kFalseAlarms];
  add_time(shared, os::awake_now_ns() - killed_at.load());
}

int produce(const Channel& channel, Shared& shared, std::size_t me,
            const std::atomic<std::int64_t>& killed_at) {
  auto producer = producer_of(channel);
  if (!producer) return 1;
  for (std::uint64_t i = 0;; ++i) {
    Acquired got = producer->acquire(in_ms(60'000));
    if (got.outcome == Outcome::PeerDied) check_death(got.peer, shared, killed_at);
    if (got.outcome == Outcome::Corrupt || got.outcome == Outcome::Stale) return 1;
    if (got.outcome != Outcome::Ready) continue;
    std::size_t bytes = size_of(i, kSlotBytes - 8) + 8;
    std::memcpy(got.slot.data, &i, 8);
    fill(got.slot.data + 8, bytes - 8, i);
    if (!producer->publish(got.slot, bytes)) return 1;
    ++shared[me];
  }
}

int consume(const Channel& channel, Shared& shared, std::size_t me,
            const std::atomic<std::int64_t>& killed_at) {
  auto consumer = consumer_of(channel);
  if (!consumer) return 1;
  std::vector<Item> held;
  while (true) {
    Taken got = consumer->take(in_ms(shared[kStop] == 0 ? 60'000 : 50));
    if (got.outcome == Outcome::Ended) return 0;
    if (got.outcome == Outcome::PeerDied) check_death(got.peer, shared, killed_at);
    if (got.outcome == Outcome::Corrupt || got.outcome == Outcome::Stale) return 1;
    if (got.outcome == Outcome::TimedOut && shared[kStop] != 0) return 0;
    if (got.outcome != Outcome::Ready) continue;
    std::uint64_t number = 0;
    std::memcpy(&number, got.item.data, 8);
    bool whole = got.item.bytes == size_of(number, kSlotBytes - 8) + 8 &&
                 is_whole(got.item.data + 8, got.item.bytes - 8, number);
    if (!whole) ++shared[kTorn];
    ++shared[kItems];
    ++shared[me];
    held.push_back(got.item);
    if (held.size() < 2) continue;
    for (const Item& item : held) (void)consumer->release(item);
    held.clear();
  }
}

std::size_t open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

/// Bytes of channels that this process still has mapped.
bool has_channels_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("pergpu:") != std::string::npos) return true;
  }
  return false;
}

struct Totals {
  std::uint64_t kills = 0;
  std::uint64_t stops = 0;
  std::uint64_t items = 0;
  std::uint64_t told = 0;
  std::uint32_t longest_us = 0;
};

[[noreturn]] void fail(const Totals& totals, const std::string& what) {
  std::printf("after %llu kills: %s\n", static_cast<unsigned long long>(totals.kills),
              what.c_str());
  std::fflush(stdout);
  std::_Exit(1);  // the others have an alarm of their own, or are killed by their owner's end
}

/// Every worker passes an item on within ten seconds: waiting is not enough.
void await_beats(const Totals& totals, Shared& shared, const std::vector<Forked>& workers) {
  std::uint32_t before[2 * kEach];
  for (std::size_t i = 0; i < workers.size(); ++i) before[i] = shared[i].load();
  std::int64_t deadline = soon();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    while (shared[i].load() == before[i]) {
      if (os::awake_now_ns() > deadline) {
        fail(totals, (i < kEach ? "a producer hangs, process " : "a consumer hangs, process ") +
                         std::to_string(workers[i].pid()));
      }
      ::usleep(50);
    }
  }
}

std::string all_slots_are_there(const Channel& channel) {
  std::vector<std::unique_ptr<Consumer>> consumers;
  for (std::uint32_t i = 0; i < kEach; ++i) consumers.push_back(consumer_of(channel));
  for (std::uint32_t i = 0; i < kEach; ++i) {
    auto producer = producer_of(channel);
    if (producer == nullptr) return "no place for a producer";
    std::uint32_t slots = 0;
    std::int64_t deadline = in_ms(5000);
    while (slots < channel.geometry().slots && os::awake_now_ns() < deadline) {
      for (auto& consumer : consumers) {
        Taken taken = consumer->take(0);
        if (taken.outcome == Outcome::Ready) (void)consumer->release(taken.item);
      }
      Acquired got = producer->acquire(0);
      if (got.outcome == Outcome::Corrupt) return got.why;
      if (got.outcome == Outcome::Ready) ++slots;
    }
    if (slots != channel.geometry().slots) return std::to_string(slots) + " slots are left";
    producer->close();  // so that the next one gets another place
  }
  return misplaced(channel);
}

/// One channel, `kills` deaths.
void run(Totals& totals, std::uint64_t kills, std::mt19937_64& random) {
  Channel channel = make_channel(
      {.producers = kEach, .consumers = kEach, .slots_per_lane = 3, .slot_bytes = kSlotBytes});
  Shared shared;
  auto& killed_at = *new (&shared[64]) std::atomic<std::int64_t>(os::awake_now_ns());
  auto start = [&](std::size_t i) {
    return Forked([&, i] {
      return i < kEach ? produce(channel, shared, i, killed_at)
                       : consume(channel, shared, i, killed_at);
    });
  };
  std::vector<Forked> workers;
  for (std::size_t i = 0; i < 2 * kEach; ++i) workers.push_back(start(i));
  await_beats(totals, shared, workers);
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    ::usleep(static_cast<useconds_t>(random() % 2000));
    std::size_t stopped = random() % workers.size();
    bool stop = random() % 4 == 0;
    if (stop) {
      workers[stopped].send(SIGSTOP);
      ++totals.stops;
      ::usleep(static_cast<useconds_t>(random() % 2000));
    }
    std::size_t victim = random() % workers.size();
    killed_at = os::awake_now_ns();
    workers[victim].kill();
    ++totals.kills;
    if (stop && stopped != victim) workers[stopped].send(SIGCONT);
    Forked next = start(victim);
    std::swap(workers[victim], next);
    await_beats(totals, shared, workers);
  }
  // Producers leave by a death as well: then all places can be taken anew.
  shared[kStop] = 1;
  for (std::size_t i = 0; i < kEach; ++i) workers[i].kill();
  for (std::size_t i = kEach; i < workers.size(); ++i) {
    if (workers[i].wait() != 0) fail(totals, "a consumer says that the channel is corrupt");
  }
  totals.items += shared[kItems];
  totals.told += shared[kTold];
  totals.longest_us = std::max(totals.longest_us, shared[kTimes].load());
  if (shared[kTorn] != 0) fail(totals, std::to_string(shared[kTorn]) + " torn items");
  if (shared[kFalseAlarms] != 0) {
    fail(totals, std::to_string(shared[kFalseAlarms]) + " times a living process was called dead");
  }
  if (std::string wrong = all_slots_are_there(channel); !wrong.empty()) fail(totals, wrong);
}

}  // namespace
}  // namespace pergpu::share

int main(int argc, char** argv) {
  using namespace pergpu::share;
  std::uint64_t kills = 200;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    (std::string(argv[i]) == "--kills" ? kills : seed) = value;
  }
  std::mt19937_64 random(seed);
  Totals totals;
  std::size_t descriptors = open_descriptors();
  std::int64_t begin = pergpu::os::awake_now_ns();
  while (totals.kills < kills)
    run(totals, std::min<std::uint64_t>(100, kills - totals.kills), random);
  if (open_descriptors() != descriptors) fail(totals, "descriptors are left open");
  if (has_channels_mapped()) fail(totals, "memory of a channel is left mapped");
  std::printf(
      "%llu kills, %llu stops, %llu items, %llu deaths told (the slowest %.1f ms), 0 hung, "
      "0 torn, 0 left over, %.1f s, seed %llu\n",
      static_cast<unsigned long long>(totals.kills), static_cast<unsigned long long>(totals.stops),
      static_cast<unsigned long long>(totals.items), static_cast<unsigned long long>(totals.told),
      totals.longest_us / 1000.0, static_cast<double>(pergpu::os::awake_now_ns() - begin) / 1e9,
      static_cast<unsigned long long>(seed));
  return 0;
}
