// `~` and variables in texts that name files: expanded, or refused.
#include "spec/templates/path_text.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "spec/templates/placeholders.h"

namespace pergpu {
namespace {

class PathTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HOME", "/homes/ann", 1);
    ::setenv("SCRATCH", "/scratch/{ann}", 1);
    ::setenv("API_KEY", "s3cret", 1);
    ::setenv("LATIN", "caf\xe9", 1);
    ::setenv("EMPTY", "", 1);
    ::unsetenv("NOTSET");
  }
};

std::string why(const Result<std::string>& expanded) {
  return expanded ? "expands to " + *expanded : expanded.error().message;
}

TEST_F(PathTextTest, IsExpandedAsAShellWould) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"runs", "runs"},
      {"~", "/homes/ann"},
      {"~/runs", "/homes/ann/runs"},
      {"$SCRATCH/runs", "/scratch/{ann}/runs"},
      {"${HOME}2/$HOME", "/homes/ann2//homes/ann"},
      {"a~/b", "a~/b"},
      {"./~/b", "./~/b"},
      {"cost$$5", "cost$5"},
      {"$$SCRATCH", "$SCRATCH"},
      {"{a}", "{a}"},
      {"$~/x", "~/x"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(why(expand_path(text)), "expands to " + expected) << text;
  }
}

TEST_F(PathTextTest, WhatCannotBeExpandedIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"$NOTSET/x", "$NOTSET is not set in this shell"},
      {"$EMPTY/x", "$EMPTY is empty in this shell"},
      {"a/${EMPTY}", "$EMPTY is empty in this shell"},
      {"~otto/x", "only ~/ is expanded, to your home folder"},
      {"$API_KEY", "looks like a secret"},
      {"$LATIN", "not valid UTF-8"},
      {"$(date)", "isn't a variable"},
      {"${SCRATCH", "isn't a variable"},
      {"${SCRATCH:-x}", "isn't a variable"},
      {"cost$", "isn't a variable"},
      {"$5", "isn't a variable"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(why(expand_path(text)).find(part), std::string::npos) << text;
    EXPECT_EQ(why(expand_path(text)).find("s3cret"), std::string::npos);
  }
  EXPECT_NE(why(expand_single_path("runs/*")).find("a pattern"), std::string::npos);
}

TEST_F(PathTextTest, PlaceholdersStayAndValuesAreNone) {
  const auto is_parameter = [](std::string_view name) { return name == "seed"; };
  EXPECT_EQ(why(expand_template("$SCRATCH/{seed}", is_parameter)),
            "expands to /scratch/{{ann}}/{seed}");
  EXPECT_EQ(why(expand_template("${HOME}/$${seed}", is_parameter)),
            "expands to /homes/ann/${seed}");
  EXPECT_NE(why(expand_template("${seed}", is_parameter)).find("the variable or the parameter"),
            std::string::npos);
}

TEST_F(PathTextTest, AnyTextCanBeWritten) {
  for (const std::string text : {"~", "~/x", "a~", "$HOME", "$$", "${A}", "a$"}) {
    EXPECT_EQ(why(expand_path(without_variables(text))), "expands to " + text);
  }
}

TEST_F(PathTextTest, FindsTheVariablesThatATextUses) {
  EXPECT_TRUE(uses_variable("/opt/bin:$PATH", "PATH"));
  EXPECT_TRUE(uses_variable("${PATH}:x", "PATH"));
  EXPECT_TRUE(uses_variable("$$$PATH", "PATH"));
  EXPECT_FALSE(uses_variable("$$PATH", "PATH"));
  EXPECT_FALSE(uses_variable("$PATHS $", "PATH"));
  EXPECT_FALSE(uses_variable("PATH", "PATH"));
}

TEST_F(PathTextTest, PatternsAreMadeOfTheTextAndNotOfValues) {
  EXPECT_TRUE(has_wildcards("{out}/*.ckpt"));
  EXPECT_FALSE(has_wildcards("{out}/model.pt"));
  RenderScope scope;
  scope.out = "/r/[a]*";
  EXPECT_EQ(*render_pattern("{out}/?.ckpt", scope), "/r/\\[a]\\*/?.ckpt");
}

}  // namespace
}  // namespace pergpu
