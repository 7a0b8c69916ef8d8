// Whom a signal ahead reaches, by trees of processes.
#include "keeper/signal_ahead.h"

#include <gtest/gtest.h>

namespace pergpu::keeper {
namespace {

constexpr pid_t kKeeper = 1;

using Pids = std::vector<pid_t>;

TEST(SignalAhead, WithoutAnyHandlerItGoesToAll) {
  EXPECT_EQ(signal_targets({{.pid = 2, .parent = kKeeper}, {.pid = 3, .parent = 2}}), Pids({2, 3}));
}

TEST(SignalAhead, WorkersBelowAProgramThatSavesAreSpared) {
  EXPECT_EQ(signal_targets({{.pid = 2, .parent = kKeeper, .handles = true},
                            {.pid = 3, .parent = 2},
                            {.pid = 4, .parent = 3},
                            {.pid = 5, .parent = 2, .handles = true}}),
            Pids({2, 5}));
}

TEST(SignalAhead, AShellAboveAProgramThatSavesIsSpared) {
  EXPECT_EQ(signal_targets({{.pid = 2, .parent = kKeeper, .is_shell = true},
                            {.pid = 3, .parent = 2, .handles = true},
                            {.pid = 4, .parent = 3}}),
            Pids({3}));
}

TEST(SignalAhead, TheCommandOfAShellWithATrapEnds) {
  EXPECT_EQ(signal_targets({{.pid = 2, .parent = kKeeper, .handles = true, .is_shell = true},
                            {.pid = 3, .parent = 2}}),
            Pids({2, 3}));
}

TEST(SignalAhead, UnderAShellWithATrapWorkersOfAProgramThatSavesAreSpared) {
  EXPECT_EQ(signal_targets({{.pid = 2, .parent = kKeeper, .handles = true, .is_shell = true},
                            {.pid = 3, .parent = 2, .handles = true},
                            {.pid = 4, .parent = 3}}),
            Pids({2, 3}));
}

TEST(SignalAhead, WhoseParentHasEndedHasNobodyAbove) {
  EXPECT_EQ(signal_targets(
                {{.pid = 2, .parent = kKeeper, .handles = true}, {.pid = 9, .parent = kKeeper}}),
            Pids({2, 9}));
}

}  // namespace
}  // namespace pergpu::keeper
