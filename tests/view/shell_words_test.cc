#include "view/text/shell_words.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace pergpu::view {
namespace {

TEST(ShellWords, NothingIsAddedWhereAShellNeedsNone) {
  for (const char* word : {"python3", "--lr=1e-4", "./a/b.py", "{model}", "{train.out}/x",
                           "--m={model},{seed}", "a+b", "HEAD~1", "x#y", "é", "a@b:c"})
    EXPECT_EQ(shell_word(word), word);
}

TEST(ShellWords, QuotesAreAddedWhereAShellNeedsThem) {
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("*.py"), "'*.py'");
  EXPECT_EQ(shell_word("~/x"), "'~/x'");
  EXPECT_EQ(shell_word("#x"), "'#x'");
  EXPECT_EQ(shell_word("{a,b}"), "'{a,b}'");
  EXPECT_EQ(shell_word("{1..3}"), "'{1..3}'");
  EXPECT_EQ(shell_word("it's \"it\""), "'it'\\''s \"it\"'");
  EXPECT_EQ(shell_words({"python3", "-c", "print('a', 1)"}), "python3 -c 'print('\\''a'\\'', 1)'");
  EXPECT_EQ(shell_words({"A=1", "x"}), "'A=1' x");
}

/// What sh makes of a command line.
std::vector<std::string> read_by_sh(const std::string& words) {
  FILE* sh = ::popen(("printf '%s\\001' " + words).c_str(), "r");
  std::string text;
  std::array<char, 4096> block;
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), sh)) > 0;)
    text.append(block.data(), n);
  ::pclose(sh);
  std::vector<std::string> out;
  for (std::size_t at = 0, end = 0; (end = text.find('\001', at)) != std::string::npos;
       at = end + 1)
    out.push_back(text.substr(at, end - at));
  return out;
}

TEST(ShellWords, AreReadBackByAShell) {
  std::vector<std::string> words;
  const std::string characters = " \t\n'\"\\$`!*?[]{}()<>|&;#~=%^,.:@+-_aZ0";
  for (const char a : characters) {
    for (const char b : characters) {
      words.push_back({a, b});
      words.push_back({'x', a, b, '\'', b});
    }
    words.push_back(std::string("{") + a + "}");
    words.push_back(std::string("{a") + a + "b}");
  }
  EXPECT_EQ(read_by_sh(shell_words(words)), words);
}

}  // namespace
}  // namespace pergpu::view
