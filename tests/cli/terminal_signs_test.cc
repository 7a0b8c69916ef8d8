// Which terminals get progress, and what they get.
#include "cli/term/terminal_signs.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <map>

namespace pergpu::cli {
namespace {

bool knows(const std::map<std::string, std::string>& variables) {
  return knows_progress([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(TerminalSigns, ProgressGoesToTerminalsThatKnowIt) {
  EXPECT_TRUE(knows({{"TERM", "xterm-256color"}, {"WT_SESSION", "1-2"}}));
  EXPECT_TRUE(knows({{"ConEmuANSI", "ON"}}));
  EXPECT_TRUE(knows({{"TERM", "xterm-ghostty"}}));
  EXPECT_TRUE(knows({{"TERM", "xterm-256color"}, {"TERM_PROGRAM", "WezTerm"}}));
  EXPECT_TRUE(knows({{"TERM", "xterm-256color"}, {"VTE_VERSION", "8001"}}));
}

TEST(TerminalSigns, AndToNoOthers) {
  EXPECT_FALSE(knows({{"TERM", "xterm-256color"}}));
  EXPECT_FALSE(knows({{"TERM", "xterm-kitty"}}));
  EXPECT_FALSE(knows({{"TERM", "xterm-256color"}, {"VTE_VERSION", "7006"}}));
  EXPECT_FALSE(knows({{"TERM_PROGRAM", "iTerm.app"}}));
  EXPECT_FALSE(knows({{"TERM", "tmux-256color"}, {"WT_SESSION", "1-2"}})) << "behind a multiplexer";
  EXPECT_FALSE(knows({{"TERM", "xterm"}, {"TMUX", "/tmp/x"}, {"TERM_PROGRAM", "WezTerm"}}));
  EXPECT_FALSE(knows({{"TERM", "screen"}, {"ConEmuANSI", "ON"}}));
}

/// What is written when `use` is done with it.
std::string written(bool bell, bool progress, const std::function<void(TerminalSigns&)>& use) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  ::setenv("WT_SESSION", "1-2", 1);
  ::unsetenv("TMUX");
  ::unsetenv("STY");
  ::setenv("TERM", "xterm", 1);
  {
    TerminalSigns signs(ends[1], bell, progress);
    use(signs);
  }
  ::unsetenv("WT_SESSION");
  ::close(ends[1]);
  std::array<char, 4096> text;
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  return std::string(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
}

TEST(TerminalSigns, ProgressIsWrittenWhereItChangesAndTakenAwayAtTheEnd) {
  const std::string text = written(true, true, [](TerminalSigns& signs) {
    signs.show(10, false);
    signs.show(10, false);
    signs.show(20, true);
  });
  EXPECT_EQ(text, "\x1b]9;4;1;10\x1b\\\x1b]9;4;2;20\x1b\\\x1b]9;4;0;0\x1b\\");
}

TEST(TerminalSigns, NothingIsTakenAwayThatWasNotThere) {
  EXPECT_EQ(written(true, true, [](TerminalSigns& signs) { signs.clear(); }), "");
  EXPECT_EQ(written(true, true, [](TerminalSigns& signs) { signs.ring(); }), "\a");
}

TEST(TerminalSigns, EachCanBeSwitchedOff) {
  const auto use = [](TerminalSigns& signs) {
    signs.show(10, false);
    signs.ring();
  };
  EXPECT_EQ(written(false, false, use), "");
  EXPECT_EQ(written(true, false, use), "\a");
  EXPECT_EQ(written(false, true, use), "\x1b]9;4;1;10\x1b\\\x1b]9;4;0;0\x1b\\");
}

}  // namespace
}  // namespace pergpu::cli
