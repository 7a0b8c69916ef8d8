#include "spec/templates/command_words.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arbitrary.h"

namespace pergpu {
namespace {

using Words = std::vector<std::string>;

TEST(CommandWords, AreSplitLikeAShellDoes) {
  struct Sample {
    const char* text;
    Words words;
  };
  for (const Sample& s : std::vector<Sample>{
           {"python3 a.py --x 1", {"python3", "a.py", "--x", "1"}},
           {"  a\t b\n", {"a", "b"}},
           {"a 'b c' \"d e\"", {"a", "b c", "d e"}},
           {"a'b'\"c\"d", {"abcd"}},
           {"a '' \"\"", {"a", "", ""}},
           {R"(a \  \' b\"c)", {"a", " ", "'", "b\"c"}},
           {R"(a "x\"y\\z\w")", {"a", R"(x"y\z\w)"}},
           {"a \\\n b", {"a", "b"}},
           {"a '$HOME | * `x`'", {"a", "$HOME | * `x`"}},
           {"a \\$HOME \\* \"\\$x\" 5$", {"a", "$HOME", "*", "$x", "5$"}},
           {"train layers=[64,64] q?", {"train", "layers=[64,64]", "q?"}},
           {"a b#c x~", {"a", "b#c", "x~"}},
           {"train --m {train.out}/x '{lr}'", {"train", "--m", "{train.out}/x", "{lr}"}},
           {"", {}},
       }) {
    Result<Words> words = split_command(s.text);
    ASSERT_TRUE(words) << s.text << ": " << words.error().message;
    EXPECT_EQ(*words, s.words) << s.text;
  }
}

TEST(CommandWords, OfAShellAreRefused) {
  for (const char* text : {"a | b",  "a > b",  "a < b", "a && b",    "a; b", "a $x",  "a \"$x\"",
                           "a ${x}", "a $(x)", "a `x`", "a \"`x`\"", "a *",  "a (b)", "~/a",
                           "a #b",   "X=1 a",  "a &",   "'a",        "\"a",  "a\\"})
    EXPECT_FALSE(split_command(text)) << text;
}

TEST(CommandWords, InSingleQuotesComeBackWhole) {
  EXPECT_TRUE(rc::check([] {
    Words words = *rc::gen::container<Words>(arbitrary_text());
    std::string text = "program";
    for (const std::string& word : words) {
      text += " '";
      for (char c : word) {
        if (c == '\'') text += R"('\'')";
        if (c != '\'') text += c;
      }
      text += "'";
    }
    words.insert(words.begin(), "program");
    RC_ASSERT(*split_command(text) == words);
  }));
}

}  // namespace
}  // namespace pergpu
