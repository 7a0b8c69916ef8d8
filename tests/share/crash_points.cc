// Kills one end of a channel at every single instruction of what it does, and looks at what is
// left.
//
//   crash_points [--stride N] [SCENARIO…]
//
// What the victim does is recorded once (traced.h); then it is done anew for each instruction, or
// for every N-th and all those before and after which the shared memory is not the same, and the
// victim killed there, and once while it sleeps in the kernel.  Each time
// the survivor must be told, every item that comes out must be whole and in its turn, and once the
// victim's place is taken anew every slot must be there.  One line a scenario: how many points were
// tried, how many instructions there are, and how long it took until the survivor was told.
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "share/outcome_name.h"
#include "share/traced.h"

namespace pergpu::share {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr int kTriesByBreakpoint = 3;
constexpr int kTries = 100;  // who sleeps wakes up by itself on a busy machine
constexpr std::int64_t kToldTooLateNs = 2'000'000'000;  // no measure: it would be a hang

enum class Does { Passes, Attaches, Leaves };
enum class Survivor {
  Awake,
  Asleep,
  AsleepWithoutHint,  // the kernel does not mark the victim's liveness word
  Nobody,
  Leaves  // it holds an item and leaves, while the victim is not killed but goes on
};

struct Scenario {
  const char* name;
  bool victim_produces;
  Does does;
  std::uint32_t ready;  // items that were published before
  bool victim_sleeps;   // until the survivor gives it what it waits for
  Survivor survivor;
  std::uint32_t steps = 1;  // how many instructions lie between two points
};

// A producer that passes acquires, publishes, and acquires again; a consumer takes, releases, and
// takes again.
constexpr Scenario kScenarios[] = {
    {"producer-empty", true, Does::Passes, 0, false, Survivor::Awake},
    {"producer-full", true, Does::Passes, kSlots - 1, false, Survivor::Awake},
    {"producer-sleeps", true, Does::Passes, kSlots, true, Survivor::Awake},
    {"producer-wakes", true, Does::Passes, 0, false, Survivor::Asleep},
    {"consumer-empty", false, Does::Passes, 0, false, Survivor::Awake},
    {"consumer-full", false, Does::Passes, kSlots, false, Survivor::Awake},
    {"consumer-sleeps", false, Does::Passes, 0, true, Survivor::Awake},
    {"consumer-wakes", false, Does::Passes, kSlots, false, Survivor::Asleep},
    {"producer-closes", true, Does::Leaves, 1, false, Survivor::Asleep},
    {"consumer-leaves", false, Does::Leaves, kSlots, false, Survivor::Asleep},
    // After a death: what the dead one had is taken back meanwhile.  Most of the way is reading
    // /proc.
    {"producer-recovers", true, Does::Passes, 0, false, Survivor::Nobody, 61},
    {"consumer-recovers", false, Does::Passes, 0, false, Survivor::Nobody, 61},
    {"producer-attaches", true, Does::Attaches, 0, false, Survivor::Nobody, 61},
    {"consumer-attaches", false, Does::Attaches, 0, false, Survivor::Nobody, 61},
    {"producer-attaches-consumer-leaves", true, Does::Attaches, 1, false, Survivor::Leaves, 101},
    // Up to a fifth of a second each.
    {"producer-unmarked", true, Does::Passes, 0, false, Survivor::AsleepWithoutHint, 31},
    {"consumer-unmarked", false, Does::Passes, kSlots, false, Survivor::AsleepWithoutHint, 31},
};

void produce(Producer& producer, std::uint64_t number, bool sleeps) {
  send(producer, number, sleeps ? soon() : 0);
  if (Acquired got = producer.acquire(0); got.outcome == Outcome::Ready) {
    (void)producer.abandon(got.slot);
  }
}

void consume(Consumer& consumer, bool sleeps) {
  Taken taken = consumer.take(sleeps ? soon() : 0);
  if (taken.outcome == Outcome::Ready) (void)consumer.release(taken.item);
  (void)consumer.take(0);
}

/// From now on the end of this thread is marked nowhere.
void forgo_hints() {
  static robust_list_head nothing = {};
  nothing.list.next = &nothing.list;
  ::syscall(SYS_set_robust_list, &nothing, sizeof(nothing));
}

/// One life of the victim: what comes before the way, the way, and rest.
[[noreturn]] void live(const Channel& channel, const Scenario& scenario, Shared& shared) {
  std::unique_ptr<Producer> producer;
  std::unique_ptr<Consumer> consumer;
  auto attach = [&] {
    if (scenario.victim_produces) {
      producer = producer_of(channel);
    } else {
      consumer = consumer_of(channel);
    }
  };
  if (scenario.does != Does::Attaches) attach();
  if (scenario.survivor == Survivor::AsleepWithoutHint) forgo_hints();
  for (std::uint64_t i = 1; producer && i <= scenario.ready; ++i) send(*producer, i, 0);
  if (scenario.does == Does::Leaves && consumer) (void)consumer->take(soon());
  shared[0] = 1;  // it may begin
  wake(shared[0]);
  Traced::begin();
  switch (scenario.does) {
    case Does::Attaches:
      attach();
      break;
    case Does::Leaves:
      if (producer) producer->close();
      if (consumer) consumer->detach();
      break;
    case Does::Passes:
      if (producer) produce(*producer, scenario.ready + 1, scenario.victim_sleeps);
      if (consumer) consume(*consumer, scenario.victim_sleeps);
  }
  Traced::end();
  std::uint32_t slots = 0;
  for (int i = 0; producer && i < 20; ++i) {
    if (producer->acquire(0).outcome == Outcome::Ready) ++slots;  // or is told that somebody left
  }
  shared[1] = 1 + slots;
  wake(shared[1]);
  ::pause();
  std::abort();
}

/// For a victim that produces: a consumer that died with an item in its hands.  For one that
/// consumes: a producer that died with an item published.  Who attaches has a dead predecessor,
/// too.
void leave_something_dead(const Channel& channel, const Scenario& scenario) {
  Shared done;
  Forked producing([&] {
    auto producer = producer_of(channel);
    send(*producer, 1, 0);
    done[0] = 1;
    wake(done[0]);
    return ::pause();
  });
  if (!reaches(done[0], 1)) std::abort();
  bool with_consumer = scenario.victim_produces || scenario.does == Does::Attaches;
  if (!with_consumer) return;
  Forked consuming([&] {
    auto consumer = consumer_of(channel);
    if (consumer->take(soon()).outcome != Outcome::Ready) return 1;
    done[0] = 2;
    wake(done[0]);
    return ::pause();
  });
  if (!reaches(done[0], 2)) std::abort();
}

/// One channel, one victim, one death.
class Experiment {
 public:
  explicit Experiment(const Scenario& scenario)
      : scenario_(scenario),
        channel_(make_channel({.slots_per_lane = kSlots, .slot_bytes = 64})),
        victim_([]() -> int { return 0; }) {
    victim_.wait();
    if (scenario.survivor == Survivor::Nobody) leave_something_dead(channel_, scenario);
    if (scenario.survivor == Survivor::Leaves) {
      let_survivor_take();
    } else if (scenario.survivor != Survivor::Nobody) {
      attach_survivor();
    }
    Forked victim([&]() -> int { live(channel_, scenario, shared_); });
    std::swap(victim_, victim);
    if (!reaches(shared_[0], 1)) std::abort();
    traced_ = Traced(victim_);
    if (scenario.survivor == Survivor::Asleep || scenario.survivor == Survivor::AsleepWithoutHint) {
      put_survivor_to_sleep();
    }
  }

  std::vector<Point> record_way() {
    const std::byte* memory = channel_.core().mapping.data();
    std::vector<std::byte> before(memory, memory + channel_.geometry().total_bytes);
    auto has_changed = [&] {
      if (std::memcmp(before.data(), memory, before.size()) == 0) return false;
      std::memcpy(before.data(), memory, before.size());
      return true;
    };
    std::vector<Point> way = record(
        *traced_, [&] { give(); }, has_changed);
    if (scenario_.survivor == Survivor::Leaves) consumer_.reset();
    finish();
    return way;
  }
  /// False: the victim went another way this time, and was killed there.
  bool try_point(const std::vector<Point>& way, std::size_t at, bool by_steps) {
    auto wake = [&] { give(); };
    bool there = by_steps ? step_to(*traced_, way, at, wake) : go_to(*traced_, way, way[at], wake);
    if (scenario_.survivor == Survivor::Leaves) {
      consumer_.reset();
      if (there) let_go_on();
    }
    finish();
    return there;
  }

  const std::string& wrong() const { return wrong_; }
  std::int64_t told_ns() const { return told_ns_; }

 private:
  void attach_survivor() {
    if (scenario_.victim_produces) {
      consumer_ = consumer_of(channel_);
      return;
    }
    producer_ = producer_of(channel_);
    for (std::uint64_t i = 1; i <= scenario_.ready; ++i) send(*producer_, i, 0);
  }

  void put_survivor_to_sleep() {
    sleeper_ = std::thread([&] { survive(); });
    const Layout& layout = channel_.core().layout;
    const Word& flag =
        scenario_.victim_produces ? layout.consumer(0).sleeping : layout.producer(0).sleeping;
    while (flag.load() == 0) ::usleep(20);
  }

  /// An item of an earlier producer is in the survivor's hands.
  void let_survivor_take() {
    producer_ = producer_of(channel_);
    send(*producer_, 1, 0);
    consumer_ = consumer_of(channel_);
    held_ = consumer_->take(0).item;
    producer_.reset();
  }

  /// The victim goes on to the end, and must have all slots.
  void let_go_on() {
    traced_->run_on();
    if (!reaches(shared_[1], 1)) std::abort();
    if (std::uint32_t slots = shared_[1] - 1; slots != kSlots) {
      complain(std::to_string(slots) + " slots of " + std::to_string(kSlots) + " for the victim");
    }
  }

  /// What the victim sleeps for.
  void give() {
    if (consumer_) check_item(consumer_->take(soon()));
    if (producer_) send(*producer_, 1, 0);
  }

  void finish() {
    std::int64_t killed_at = os::awake_now_ns();
    victim_.kill();
    if (sleeper_.joinable()) {
      sleeper_.join();
    } else if (scenario_.survivor != Survivor::Nobody && scenario_.survivor != Survivor::Leaves) {
      survive();
    }
    if (told_at_ != 0) told_ns_ = std::max<std::int64_t>(0, told_at_ - killed_at);
    if (told_ns_ > kToldTooLateNs) complain("the survivor was told too late");
    if (wrong_.empty()) look_for_all_slots();
  }

  /// Until the victim's end is told; everything that it has published comes before.
  void survive() {
    while (consumer_) {
      Taken taken = consumer_->take(soon());
      if (is_end(taken.outcome)) break;
      if (!check_item(taken)) return;
    }
    std::vector<Slot> slots;
    while (producer_) {
      Acquired got = producer_->acquire(soon());
      if (is_end(got.outcome)) break;
      if (got.outcome != Outcome::Ready) {
        return complain(std::string("a producer is told: ") + name_of(got.outcome));
      }
      slots.push_back(got.slot);
    }
    told_at_ = os::awake_now_ns();
    for (const Slot& slot : slots) (void)producer_->abandon(slot);
  }

  bool is_end(Outcome outcome) const {
    bool in_good_order = outcome == Outcome::PeerLeft || outcome == Outcome::Ended;
    return outcome == Outcome::PeerDied || (scenario_.does == Does::Leaves && in_good_order);
  }

  /// Items come whole, each once, none is missing.
  bool check_item(const Taken& taken) {
    if (taken.outcome != Outcome::Ready) {
      complain(std::string("instead of an item or the end: ") + name_of(taken.outcome));
      return false;
    }
    const Item& item = taken.item;
    if (last_ != 0 && item.sequence != last_ + 1) {
      complain("item " + std::to_string(item.sequence) + " after " + std::to_string(last_));
    }
    if (item.bytes != size_of(item.sequence, 64) ||
        !is_whole(item.data, item.bytes, item.sequence)) {
      complain("item " + std::to_string(item.sequence) + " is torn");
    }
    last_ = item.sequence;
    if (consumer_) (void)consumer_->release(item);
    return true;
  }

  /// The victim's place anew, the survivor as it is: what was published still comes, then all slots
  /// are the producer's.
  void look_for_all_slots() {
    if (!consumer_) consumer_ = consumer_of(channel_);
    const Layout& layout = channel_.core().layout;
    bool closed = layout.producer_owner(0).state == PlaceState::Closed;
    if (!closed && !producer_) producer_ = producer_of(channel_);
    for (Outcome outcome = Outcome::Ready;
         wrong_.empty() && outcome != Outcome::TimedOut && outcome != Outcome::Ended;) {
      Taken taken = consumer_->take(0);
      outcome = taken.outcome;
      if (outcome == Outcome::Ready) check_item(taken);
      if (outcome == Outcome::Corrupt) complain(taken.why);
    }
    std::uint64_t published = layout.producer(0).sequence.load();
    // The number is written before the item is published, and counts from then on.
    if (last_ > published || (last_ != 0 && last_ + 1 < published)) complain("items are missing");
    std::uint32_t slots = closed ? kSlots : 0;
    for (int i = 0; producer_ && i < 20; ++i) {
      Acquired got = producer_->acquire(0);
      if (got.outcome == Outcome::TimedOut) break;
      if (got.outcome == Outcome::Ready) ++slots;
      if (got.outcome == Outcome::Corrupt) complain(got.why);
    }
    if (slots != kSlots) {
      complain(std::to_string(slots) + " slots of " + std::to_string(kSlots));
    }
    if (std::string where = misplaced(channel_); !where.empty()) complain(where);
  }

  void complain(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  const Scenario& scenario_;
  Channel channel_;
  Shared shared_;
  Forked victim_;
  std::optional<Traced> traced_;
  std::unique_ptr<Producer> producer_;  // who survives
  std::unique_ptr<Consumer> consumer_;
  Item held_;
  std::thread sleeper_;
  std::uint64_t last_ = 0;
  std::int64_t told_at_ = 0;
  std::int64_t told_ns_ = 0;
  std::string wrong_;
};

[[noreturn]] void fail(const Scenario& scenario, std::size_t at, const std::string& what) {
  std::printf("%s, killed after %zu instructions: %s\n", scenario.name, at, what.c_str());
  std::exit(1);
}

void run(const Scenario& scenario, std::size_t stride) {
  Experiment first(scenario);
  std::vector<Point> way = first.record_way();
  if (!first.wrong().empty()) fail(scenario, way.size(), first.wrong());
  bool sleeps = std::any_of(way.begin(), way.end(), [](const Point& at) { return at.asleep; });
  if (sleeps != scenario.victim_sleeps) fail(scenario, 0, "it goes another way than was meant");
  std::vector<std::int64_t> told;
  bool slow = scenario.survivor == Survivor::AsleepWithoutHint;
  std::size_t stepped = 0;  // the clock, or the awakened survivor, changes the way
  for (std::size_t at = 0; at < way.size(); ++at) {
    bool chosen = way[at].asleep || (way[at].beside_change && !slow);
    if (!chosen && at % (stride * scenario.steps) != 0) continue;
    bool there = false;
    for (int tries = 0; !there; ++tries) {
      if (tries == kTries) fail(scenario, at, "it goes another way than was recorded");
      bool by_steps = tries >= kTriesByBreakpoint && !way[at].asleep;
      Experiment experiment(scenario);
      there = experiment.try_point(way, at, by_steps);
      if (!experiment.wrong().empty()) fail(scenario, at, experiment.wrong());
      if (!there) continue;
      told.push_back(experiment.told_ns());
      if (by_steps) ++stepped;
    }
  }
  std::sort(told.begin(), told.end());
  auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / kMs; };
  std::printf("%-18s %5zu points of %5zu instructions", scenario.name, told.size(), way.size());
  if (told.back() != 0) {
    auto late = std::count_if(told.begin(), told.end(), [](auto ns) { return ns > 10 * kMs; });
    std::printf(", told after %.2f ms, at most %.2f, %ld times later than 10",
                ms(told[told.size() / 2]), ms(told.back()), static_cast<long>(late));
  }
  if (stepped != 0) std::printf(", %zu counted by steps", stepped);
  std::printf("\n");
}

}  // namespace
}  // namespace pergpu::share

int main(int argc, char** argv) {
  using namespace pergpu::share;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::size_t stride = 1;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--stride" && i + 1 < argc) {
      stride = std::max(1UL, std::strtoul(argv[++i], nullptr, 10));
    } else {
      wanted.push_back(argv[i]);
    }
  }
  for (const Scenario& scenario : kScenarios) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), scenario.name) != wanted.end()) {
      run(scenario, stride);
    }
  }
}
