// report_to_table [CALLS]: what one report into a table of metrics costs a program in C++, without
// Python and without a file, and what it costs to read the table meanwhile.
//
// One line of JSON: nanoseconds for a report of 2 and of 16 values, with the clock read each time,
// for reading the clock alone, and microseconds for reading a table of 8 processes of 512.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "os/clock.h"
#include "share/metrics_writer.h"
#include "share/segment.h"

using namespace pergpu;

namespace {

constexpr int kTurns = 7;

template <typename T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

/// The median of some turns, ns for a call.
template <typename Call>
double ns_of(std::int64_t calls, Call&& call) {
  std::vector<double> taken;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t begin = os::awake_now_ns();
    for (std::int64_t i = 0; i < calls; ++i) call(i);
    taken.push_back(static_cast<double>(os::awake_now_ns() - begin) / static_cast<double>(calls));
  }
  std::ranges::sort(taken);
  return taken[kTurns / 2];
}

double report_ns(const share::MetricsTable& table, std::int64_t job, int names,
                 std::int64_t calls) {
  auto writer =
      must(share::MetricsWriter::claim(table, {.job = job, .attempt = 1, .place = "r/s"}, 0));
  std::vector<share::MetricReport> values;
  for (int i = 0; i < names; ++i) {
    values.push_back({.name = writer.name("metric/" + std::to_string(i)).value()});
  }
  os::RealClock clock;
  return ns_of(calls, [&](std::int64_t i) {
    for (share::MetricReport& one : values) one.value = static_cast<double>(calls - i);
    writer.report(values, static_cast<double>(i), clock.now().wall_ns);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t calls = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  if (calls < 1) {
    fmt::print(stderr, "usage: report_to_table [CALLS]\n");
    return 2;
  }
  auto segment = must(share::Segment::create("bench", share::MetricsTable::bytes(512)));
  auto mapping = must(segment.map(share::View::Shared));
  auto table = must(share::MetricsTable::create(mapping.data(), mapping.size(), "bench"));
  os::RealClock clock;
  std::int64_t sum = 0;
  const double clock_ns = ns_of(calls, [&](std::int64_t) { sum += clock.now().wall_ns; });
  const double two = report_ns(table, 1, 2, calls);
  const double sixteen = report_ns(table, 2, 16, calls);
  for (std::int64_t job = 3; job <= 8; ++job) report_ns(table, job, 2, 1);
  std::size_t jobs = 0;
  const double read_ns = ns_of(1000, [&](std::int64_t) { jobs = table.read().size(); });
  fmt::print(
      "{{\"report_2_ns\":{:.0f},\"report_16_ns\":{:.0f},\"clock_ns\":{:.0f},"
      "\"read_us\":{:.1f},\"processes\":{}}}\n",
      two, sixteen, clock_ns, read_ns / 1000, jobs);
  return sum == 0 ? 1 : 0;
}
