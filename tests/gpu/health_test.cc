// What signs of trouble mean (gpu/health.h), and that the table people read is the table of the
// code.
#include "gpu/health.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "os/fs/file.h"

namespace pergpu::gpu {
namespace {

std::string_view to_string(XidKind kind) {
  switch (kind) {
    case XidKind::Ignore:
      return "ignore";
    case XidKind::Application:
      return "application";
    case XidKind::Driver:
      return "driver";
    case XidKind::Hardware:
      return "hardware";
  }
  return "ignore";
}

/// "8, 11, 39–41" -> 8 11 39 40 41.
std::vector<std::int64_t> numbers_in(std::string text) {
  for (std::size_t dash; (dash = text.find("–")) != std::string::npos;) text.replace(dash, 3, "-");
  std::vector<std::int64_t> numbers;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::int64_t first = std::atoll(part.c_str());
    const std::size_t dash = part.find('-');
    const std::int64_t last = dash == std::string::npos ? first : std::atoll(&part[dash + 1]);
    for (std::int64_t number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

TEST(XidTable, IsTheOneInTheDocument) {
  const Result<std::string> page =
      os::read_file(PERGPU_TEST_DATA "/../../docs/failures.md", 1 << 20);
  ASSERT_TRUE(page);
  const std::size_t begin = page->find("| Xid |");
  ASSERT_NE(begin, std::string::npos);
  std::vector<std::string> documented;
  std::stringstream lines(page->substr(begin, page->find("\n\n", begin) - begin));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::stringstream row(line.substr(2));
    for (std::string cell; std::getline(row, cell, '|');) {
      const std::size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos
                          ? ""
                          : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    ASSERT_EQ(cells.size(), 4u) << line;
    for (const std::int64_t number : numbers_in(cells[0])) {
      documented.push_back(fmt::format("{:03}|{}|{}|{}", number, cells[1], cells[2], cells[3]));
    }
  }
  std::vector<std::string> coded;
  for (const XidEntry& entry : xid_table()) {
    const bool ends = entry.kind == XidKind::Hardware;
    coded.push_back(fmt::format("{:03}|{}|{}|{}", entry.number, entry.words, to_string(entry.kind),
                                ends ? to_string(entry.lift) : ""));
  }
  std::sort(documented.begin(), documented.end());
  EXPECT_EQ(documented, coded);
}

TEST(XidTable, KnowsWhoseFaultItIs) {
  for (const std::int64_t number : {48, 64, 74, 79, 94, 95, 119, 120}) {
    ASSERT_NE(xid_entry(number), nullptr) << number;
    EXPECT_EQ(xid_entry(number)->kind, XidKind::Hardware) << number;
  }
  for (const std::int64_t number : {13, 31, 43, 45, 109}) {
    EXPECT_EQ(xid_entry(number)->kind, XidKind::Application) << number;
  }
  EXPECT_EQ(xid_entry(63)->kind, XidKind::Ignore);
  EXPECT_EQ(xid_entry(79)->lift, Lift::Reboot);
  EXPECT_EQ(xid_entry(48)->lift, Lift::Reset);
  for (const std::int64_t number : {0, 12, 162, 999, -1}) EXPECT_EQ(xid_entry(number), nullptr);
}

TEST(XidWords, NameNumberAndMeaning) {
  EXPECT_EQ(xid_words(79), "Xid 79: the GPU has fallen off the bus");
  EXPECT_EQ(xid_words(999), "Xid 999: unknown error");
}

TEST(FaultOf, AHealthyGpuHasNone) {
  EXPECT_FALSE(fault_of({.uuid = "GPU-a"}, ~0u));
  EXPECT_EQ(conditions_of({.uuid = "GPU-a", .health = GpuHealth::Unknown}), 0u)
      << "no answer is no verdict";
}

TEST(FaultOf, EachConditionIsNamedWithItsWayOut) {
  const auto pending = fault_of({.repair_pending = true}, ~0u);
  ASSERT_TRUE(pending);
  EXPECT_NE(pending->words.find("pending"), std::string::npos);
  EXPECT_EQ(pending->lift, Lift::Reset);
  EXPECT_EQ(fault_of({.repair_failed = true}, ~0u)->lift, Lift::Reboot);
  EXPECT_EQ(fault_of({.recovery_action = kRecoveryReset}, ~0u)->lift, Lift::Reset);
  EXPECT_EQ(fault_of({.recovery_action = kRecoveryReboot}, ~0u)->lift, Lift::Reboot);
  EXPECT_EQ(fault_of({.health = GpuHealth::Lost, .note = "lost it"}, ~0u)->words, "lost it");
  EXPECT_FALSE(fault_of({.repair_pending = true}, ~kRepairPending)) << "not asked for";
}

}  // namespace
}  // namespace pergpu::gpu
