// Records of the table are whole, whatever their writer does or suffers; they stay when it is gone;
// garbage in the memory leads nowhere.
#include <rapidcheck.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "sanitizer.h"
#include "share/metrics_writer.h"
#include "share/rig.h"
#include "share/segment.h"

namespace pergpu::share {
namespace {

#ifdef HAS_SANITIZER
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// A table that forked processes see, too.
struct Memory {
  explicit Memory(std::uint32_t slots)
      : segment(*Segment::create("metrics", MetricsTable::bytes(slots))),
        mapping(*segment.map(View::Shared)),
        table(*MetricsTable::create(mapping.data(), mapping.size(), "/runs/thirteen")) {}

  Segment segment;
  Mapping mapping;
  MetricsTable table;
};

MetricsWriter::Identity of(std::int64_t job, std::int64_t attempt = 1) {
  return {.job = job, .attempt = attempt, .place = std::to_string(job) + "-lr=" + "0.1/train"};
}

MetricsWriter writer_of(const MetricsTable& table, const MetricsWriter::Identity& identity,
                        std::int64_t now_ns = 1) {
  Result<MetricsWriter> writer = MetricsWriter::claim(table, identity, now_ns);
  EXPECT_TRUE(writer) << writer.error().message;
  return std::move(*writer);
}

bool tell(MetricsWriter& writer, std::string_view name, double value, double step = kNone,
          std::int64_t now_ns = 2) {
  MetricReport one{.name = writer.name(name).value(), .value = value};
  return writer.report({&one, 1}, step, now_ns);
}

/// Report `number`: six names that all say it, the later ones only from the second report on.
void tell_whole(MetricsWriter& writer, std::uint64_t number) {
  std::vector<MetricReport> values;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    if (number == 1 && values.size() == 3) break;
    std::optional<std::uint32_t> known = writer.name(name);
    if (known) values.push_back({.name = *known, .value = static_cast<double>(number)});
  }
  writer.report(values, static_cast<double>(number), static_cast<std::int64_t>(number));
}

/// Which report the record holds; -1: pieces of several.
std::int64_t number_in(const JobMetrics& job) {
  auto number = static_cast<std::int64_t>(job.reports);
  if (number == 0) return job.metrics.empty() ? 0 : -1;
  if (job.metrics.size() != (number == 1 ? 3U : 6U) || job.reported_ns != number) return -1;
  for (const ReportedMetric& metric : job.metrics) {
    auto value = static_cast<double>(number);
    double first = metric.name < "d" ? 1 : 2;
    bool whole = metric.last.value == value && metric.last.step == value &&
                 metric.greatest.value == value && metric.greatest.step == value &&
                 metric.least.value == first && metric.least.step == first;
    if (!whole) return -1;
  }
  return number;
}

const ReportedMetric& metric(const std::vector<JobMetrics>& jobs, std::size_t job,
                             std::size_t number) {
  return jobs.at(job).metrics.at(number);
}

TEST(MetricsTable, TellsTheNewestTheLeastAndTheGreatest) {
  Memory memory(4);
  MetricsWriter writer = writer_of(memory.table, of(17, 3), 5);
  tell(writer, "loss", 0.5, 1);
  tell(writer, "loss", 0.25, 2);
  tell(writer, "loss", 0.75, 3, 9);
  std::vector<JobMetrics> jobs = memory.table.read();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].job, 17);
  EXPECT_EQ(jobs[0].attempt, 3);
  EXPECT_EQ(jobs[0].pid, ::getpid());
  EXPECT_EQ(jobs[0].place, "17-lr=0.1/train");
  EXPECT_EQ(jobs[0].began_ns, 5);
  EXPECT_EQ(jobs[0].reported_ns, 9);
  EXPECT_EQ(jobs[0].reports, 3U);
  EXPECT_TRUE(jobs[0].alive);
  const ReportedMetric& loss = metric(jobs, 0, 0);
  EXPECT_EQ(loss.name, "loss");
  EXPECT_EQ(loss.last.value, 0.75);
  EXPECT_EQ(loss.last.step, 3);
  EXPECT_EQ(loss.least.value, 0.25);
  EXPECT_EQ(loss.least.step, 2);
  EXPECT_EQ(loss.greatest.value, 0.75);
  EXPECT_EQ(loss.greatest.step, 3);
}

TEST(MetricsTable, NoNumberIsNeverTheBest) {
  Memory memory(1);
  MetricsWriter writer = writer_of(memory.table, of(1));
  tell(writer, "loss", kNone);
  EXPECT_FALSE(metric(memory.table.read(), 0, 0).has_range);
  tell(writer, "loss", 2);
  tell(writer, "loss", kNone);
  std::vector<JobMetrics> jobs = memory.table.read();
  EXPECT_TRUE(std::isnan(metric(jobs, 0, 0).last.value));
  EXPECT_EQ(metric(jobs, 0, 0).least.value, 2);
  EXPECT_TRUE(std::isnan(metric(jobs, 0, 0).least.step));
}

TEST(MetricsTable, WhatDoesNotFitHasNoNumber) {
  Memory memory(1);
  MetricsWriter writer = writer_of(memory.table, of(1));
  EXPECT_FALSE(writer.name(""));
  EXPECT_FALSE(writer.name(std::string(kMetricNameBytes + 1, 'x')));
  EXPECT_FALSE(writer.name(std::string_view("a\0b", 3)));
  std::string longest(kMetricNameBytes, 'x');
  tell(writer, longest, 1);
  for (std::uint32_t i = 1; i < kMetricNames; ++i) tell(writer, "n" + std::to_string(i), i);
  EXPECT_FALSE(writer.name("one more"));
  EXPECT_EQ(writer.name("n5"), 5U);
  std::vector<JobMetrics> jobs = memory.table.read();
  ASSERT_EQ(jobs[0].metrics.size(), kMetricNames);
  EXPECT_EQ(metric(jobs, 0, 0).name, longest);
  EXPECT_EQ(metric(jobs, 0, 63).last.value, 63);
}

TEST(MetricsTable, TheNextProcessOfAJobGoesOnAndAnotherJobDoesNot) {
  Memory memory(4);
  {
    MetricsWriter first = writer_of(memory.table, of(1, 1));
    tell(first, "loss", 0.5, 1);
  }
  EXPECT_FALSE(memory.table.read()[0].alive);
  MetricsWriter other = writer_of(memory.table, of(2));
  MetricsWriter next = writer_of(memory.table, of(1, 2));
  tell(next, "accuracy", 0.9);
  tell(next, "loss", 0.75, 2);
  std::vector<JobMetrics> jobs = memory.table.read();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].job, 1);
  EXPECT_EQ(jobs[0].attempt, 2);
  EXPECT_EQ(jobs[0].reports, 3U);
  EXPECT_TRUE(jobs[0].alive);
  EXPECT_EQ(metric(jobs, 0, 0).least.value, 0.5);
  EXPECT_EQ(metric(jobs, 0, 0).last.value, 0.75);
  EXPECT_EQ(metric(jobs, 0, 1).name, "accuracy");
  EXPECT_TRUE(jobs[1].metrics.empty());
}

TEST(MetricsTable, OfAFullTableTheSlotOfTheOldestDeadIsTakenAndOfTheLivingNone) {
  Memory memory(3);
  MetricsWriter alive = writer_of(memory.table, of(1));
  tell(alive, "loss", 1, kNone, 1);
  {
    MetricsWriter late = writer_of(memory.table, of(2)), early = writer_of(memory.table, of(3));
    tell(late, "loss", 2, kNone, 20);
    tell(early, "loss", 3, kNone, 10);
  }
  MetricsWriter fourth = writer_of(memory.table, of(4));
  std::set<std::int64_t> jobs;
  for (const JobMetrics& job : memory.table.read()) jobs.insert(job.job);
  EXPECT_EQ(jobs, (std::set<std::int64_t>{1, 2, 4}));
  MetricsWriter fifth = writer_of(memory.table, of(5));
  Result<MetricsWriter> sixth = MetricsWriter::claim(memory.table, of(6), 1);
  ASSERT_FALSE(sixth);
  EXPECT_EQ(sixth.error().kind, ErrorKind::Full);
  EXPECT_EQ(sixth.error().message,
            "all 3 slots of the metrics table are taken by processes that report");
}

/// What a reader is to see, told by a map.
struct Model {
  struct Value {
    double last = 0, least = kNone, greatest = kNone;
  };
  std::map<std::string, Value> values = {};

  void report(const std::string& name, double number) {
    Value& value = values[name];
    value.last = number;
    if (std::isnan(number)) return;
    if (std::isnan(value.least) || number < value.least) value.least = number;
    if (std::isnan(value.greatest) || number > value.greatest) value.greatest = number;
  }
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST(MetricsTable, ReportsAndDeathsInAnyOrderAreRemembered) {
  bool held = rc::check([](const std::vector<std::vector<std::pair<std::uint8_t, int>>>& reports) {
    Memory memory(2);
    Model model;
    MetricsWriter writer = writer_of(memory.table, of(1));
    for (const auto& one : reports) {
      if (one.size() == 1) {  // it ends, and the next process of the job goes on
        writer = writer_of(memory.table, of(2));
        writer = writer_of(memory.table, of(1));
      }
      std::vector<MetricReport> values;
      for (const auto& [number, value] : one) {
        std::string name = "n" + std::to_string(number % 70);  // 64 fit
        double told = value % 7 == 3 ? kNone : value;
        std::optional<std::uint32_t> known = writer.name(name);
        if (!known || values.size() == kMetricNames) continue;
        values.push_back({.name = *known, .value = told});
        model.report(name, told);
      }
      RC_ASSERT(writer.report(values, kNone, 1));
    }
    std::size_t found = 0;
    for (const JobMetrics& job : memory.table.read()) {
      if (job.job != 1) continue;
      for (const ReportedMetric& metric : job.metrics) {
        const Model::Value& value = model.values.at(metric.name);
        RC_ASSERT(same(metric.last.value, value.last));
        RC_ASSERT(metric.has_range == !std::isnan(value.least));
        if (!metric.has_range) continue;
        RC_ASSERT(metric.least.value == value.least);
        RC_ASSERT(metric.greatest.value == value.greatest);
      }
      found = job.metrics.size();
    }
    RC_ASSERT(found == model.values.size());
  });
  EXPECT_TRUE(held);
}

TEST(MetricsTable, AForkedChildLeavesItsParentsSlotAlone) {
  Memory memory(2);
  MetricsWriter writer = writer_of(memory.table, of(1));
  tell(writer, "loss", 1);
  Forked child([&] {
    if (tell(writer, "loss", 2)) return 1;
    writer.release();
    MetricsWriter own = writer_of(memory.table, of(1));
    return tell(own, "loss", 3) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
  std::vector<JobMetrics> jobs = memory.table.read();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_TRUE(jobs[0].alive);
  EXPECT_EQ(metric(jobs, 0, 0).last.value, 1);
  EXPECT_FALSE(jobs[1].alive);
  EXPECT_EQ(metric(jobs, 1, 0).last.value, 3);
  EXPECT_TRUE(tell(writer, "loss", 4));
}

TEST(MetricsTable, ThreadsThatReportAndReadAtOnceSeeWholeRecords) {
  Memory memory(4);
  std::atomic<bool> over{false};
  std::vector<std::jthread> writers;
  for (std::int64_t job = 1; job <= 2; ++job) {
    writers.emplace_back([&memory, &over, job] {
      MetricsWriter writer = writer_of(memory.table, of(job));
      for (std::uint64_t n = 1; !over.load(); ++n) {
        tell_whole(writer, n);
        for (int i = 0; i < 50; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    });
  }
  std::int64_t newest[3] = {};
  int seen = 0;
  for (std::int64_t deadline = soon(); seen < 5'000 && os::awake_now_ns() < deadline;) {
    for (const JobMetrics& job : memory.table.read()) {
      std::int64_t number = number_in(job);
      ASSERT_GE(number, newest[job.job]) << "-1: torn; else it went back";
      newest[job.job] = number;
      ++seen;
    }
  }
  over = true;
  EXPECT_EQ(seen >= 5'000, true) << "only " << seen;
}

/// What was told before is not lost by a kill, and what is told is whole.
TEST(MetricsTable, ProcessesThatAreKilledLeaveWholeRecordsAndLoseNothing) {
  Memory memory(2);
  Shared told;
  std::mt19937 random(7);
  for (std::uint32_t turn = 0; turn < 200; ++turn) {
    std::uint32_t before = told[0].load();
    Forked child([&] {
      Result<MetricsWriter> writer = MetricsWriter::claim(memory.table, of(1, turn), 1);
      if (!writer) return 1;
      for (std::uint32_t n = before + 1;; ++n) {
        tell_whole(*writer, n);
        told[0].store(n);
      }
    });
    ASSERT_TRUE(reaches(told[0], before + 1 + static_cast<std::uint32_t>(random() % 50)));
    child.kill();
    std::vector<JobMetrics> jobs = memory.table.read();
    ASSERT_EQ(jobs.size(), 1U);
    ASSERT_FALSE(jobs[0].alive);
    std::int64_t number = number_in(jobs[0]);
    ASSERT_GE(number, told[0].load());
    ASSERT_LE(number, told[0].load() + 1);
    told[0].store(static_cast<std::uint32_t>(number));
  }
}

/// Runs `body` in a process that is stopped behind each instruction of it, and looks
/// whenever an instruction has changed the memory.  `over`: set at the end of `body`.
void at_each_instruction(const Memory& memory, Shared& over, const std::function<void()>& body,
                         const std::function<void()>& look) {
  Forked child([&] {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 77;
    ::raise(SIGSTOP);
    body();
    over[0].store(1);
    return 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, 0), child.pid());
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "this process may trace none";
  std::vector<std::byte> before(memory.mapping.size());
  int looks = 0;
  while (over[0].load() == 0) {
    ASSERT_EQ(::ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr), 0);
    ASSERT_EQ(::waitpid(child.pid(), &status, 0), child.pid());
    ASSERT_TRUE(WIFSTOPPED(status)) << status;
    if (std::memcmp(before.data(), memory.mapping.data(), before.size()) == 0) continue;
    std::memcpy(before.data(), memory.mapping.data(), before.size());
    look();
    if (::testing::Test::HasFatalFailure()) return;
    ++looks;
  }
  EXPECT_GT(looks, 5);
}

/// As if the writer were killed now: who takes its slot over finds a whole record, too.
void take_over_a_copy(const Memory& memory, std::int64_t number) {
  for (std::int64_t job : {1, 2}) {  // the same one, and another one
    Memory copy(1);
    std::memcpy(copy.mapping.data(), memory.mapping.data(), memory.mapping.size());
    SharedWord& owner = copy.table.slot(0).owner;
    owner.store(Owner::unpack(owner.load()).with(PlaceState::Dead).pack());
    MetricsWriter writer = writer_of(copy.table, of(job, 2));
    std::int64_t expected = job == 1 ? number : 0;
    std::vector<JobMetrics> jobs = copy.table.read();
    ASSERT_EQ(jobs.size(), 1U);
    ASSERT_EQ(jobs[0].place, of(job).place);
    ASSERT_EQ(number_in(jobs[0]), expected);
    tell_whole(writer, static_cast<std::uint64_t>(expected) + 1);
    ASSERT_EQ(number_in(copy.table.read().at(0)), expected + 1);
  }
}

TEST(MetricsTable, AtEachInstructionOfAReportTheRecordIsTheOldOneOrTheNewOne) {
  if (kSanitized) GTEST_SKIP() << "too many instructions";
  Memory memory(1);
  Shared over;
  std::set<std::int64_t> seen;
  at_each_instruction(
      memory, over,
      [&] {
        MetricsWriter writer = writer_of(memory.table, of(1));
        for (std::uint64_t n = 1; n <= 3; ++n) tell_whole(writer, n);
      },
      [&] {
        for (const JobMetrics& job : memory.table.read()) {
          seen.insert(number_in(job));
          ASSERT_FALSE(seen.contains(-1)) << "torn";
          take_over_a_copy(memory, number_in(job));
        }
      });
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 2, 3}));
}

TEST(MetricsTable, AtEachInstructionOfATakeoverTheRecordIsThatOfOneJob) {
  if (kSanitized) GTEST_SKIP() << "too many instructions";
  for (std::int64_t next : {1, 2}) {  // the same job, and another one
    Memory memory(1);
    Forked([&] {
      MetricsWriter writer = writer_of(memory.table, of(1));
      tell_whole(writer, 1);
      return 0;
    }).wait();
    Shared over;
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    at_each_instruction(
        memory, over, [&] { writer_of(memory.table, of(next, 2)); },
        [&] {
          for (const JobMetrics& job : memory.table.read()) {
            ASSERT_EQ(job.place, of(job.job).place);
            ASSERT_EQ(number_in(job), job.job == 1 ? 1 : 0);
            seen.insert({job.job, job.attempt});
          }
        });
    EXPECT_EQ(seen, (std::set<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {next, 2}}));
  }
}

/// How many system calls a process makes that reports so often; -1: it cannot be traced.
int calls_of(const Memory& memory, int reports) {
  Forked child([&] {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 77;
    MetricsWriter writer = writer_of(memory.table, of(1));
    std::vector<MetricReport> values = {{.name = *writer.name("loss")},
                                        {.name = *writer.name("step")}};
    ::raise(SIGSTOP);
    for (int i = 0; i < reports; ++i) writer.report(values, i, i);
    ::raise(SIGSTOP);
    return 0;
  });
  int status = 0;
  if (::waitpid(child.pid(), &status, 0) != child.pid() || !WIFSTOPPED(status)) return -1;
  int stops = 0;
  do {
    if (::ptrace(PTRACE_SYSCALL, child.pid(), nullptr, nullptr) != 0) return -1;
    if (::waitpid(child.pid(), &status, 0) != child.pid() || !WIFSTOPPED(status)) return -1;
    ++stops;
  } while (WSTOPSIG(status) != SIGSTOP);
  return stops;
}

TEST(MetricsTable, AReportMakesNoSystemCall) {
  Memory memory(1);
  int none = calls_of(memory, 0);
  if (none < 0) GTEST_SKIP() << "this process may trace none";
  EXPECT_GT(none, 0);
  EXPECT_EQ(calls_of(memory, 1000), none);
}

TEST(MetricsTable, GarbageLeadsNowhere) {
  std::mt19937_64 random(11);
  for (int turn = 0; turn < 300; ++turn) {
    Memory memory(2);
    MetricsWriter writer = writer_of(memory.table, of(1));
    tell_whole(writer, 1);
    tell_whole(writer, 2);
    auto* words = reinterpret_cast<std::uint64_t*>(memory.mapping.data());
    std::size_t count = memory.mapping.size() / 8;
    std::size_t begin = turn % 2 == 0 ? 0 : sizeof(MetricsHeader) / 8;
    for (int i = 0; i < 200; ++i) {
      std::size_t at = i < 20 ? random() % 80 : random() % (count - begin);
      std::uint64_t choice = random() % 4;
      words[begin + at % (count - begin)] = choice == 0   ? ~std::uint64_t{0}
                                            : choice == 1 ? random() % 70
                                                          : random();
    }
    if (turn % 3 == 0) std::ranges::fill(std::span(words + begin, count - begin), ~0UL);
    (void)MetricsTable::open(memory.mapping.data(), memory.mapping.size());
    for (const JobMetrics& job : memory.table.read()) {
      EXPECT_LE(job.metrics.size(), kMetricNames);
      EXPECT_LE(job.place.size(), kMetricPlaceBytes);
    }
    tell_whole(writer, 3);
    if (Result<MetricsWriter> next = MetricsWriter::claim(memory.table, of(1, 2), 1)) {
      tell_whole(*next, 1);
    }
  }
}

TEST(MetricsTable, OtherMemoryIsNoTable) {
  Memory memory(2);
  std::size_t size = memory.mapping.size();
  EXPECT_EQ(MetricsTable::open(memory.mapping.data(), size)->key(), "/runs/thirteen");
  EXPECT_FALSE(MetricsTable::open(memory.mapping.data(), size - 1));
  EXPECT_FALSE(MetricsTable::open(memory.mapping.data(), 8));
  auto* header = reinterpret_cast<MetricsHeader*>(memory.mapping.data());
  header->slots = 3;
  EXPECT_FALSE(MetricsTable::open(memory.mapping.data(), size));
  header->slots = 2;
  header->abi = 9;
  EXPECT_EQ(
      MetricsTable::open(memory.mapping.data(), size).error().message,
      "the segment isn't a metrics table: created by another version of pergpu (layout 9, this "
      "one supports 1)");
  header->abi = kMetricsAbi;
  std::memset(header->key, 'x', sizeof(header->key));
  EXPECT_FALSE(MetricsTable::open(memory.mapping.data(), size));
  EXPECT_FALSE(MetricsTable::create(memory.mapping.data(), size, std::string(5000, 'x')));
  EXPECT_FALSE(MetricsTable::create(memory.mapping.data(), 100, "x"));
  EXPECT_FALSE(MetricsWriter::claim(memory.table, {.job = 1, .place = std::string(600, 'x')}, 1));
}

}  // namespace
}  // namespace pergpu::share
