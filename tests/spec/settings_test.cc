// KEY=VALUE of `pergpu set`: what is read, and what is said of the rest.
#include "spec/schema/settings.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

std::string mistakes(const std::vector<std::string>& words) {
  const Result<Settings> settings = settings_of(words);
  return settings ? "none" : settings.error().message;
}

TEST(Settings, AreReadAsTyped) {
  EXPECT_EQ(*settings_of({"priority=-5"}), (Settings{.priority = -5}));
  EXPECT_EQ(*settings_of({"lanes=4", "max_parallel=2"}), (Settings{.max_parallel = 2, .lanes = 4}));
  EXPECT_EQ(*settings_of({"max_parallel=none"}), (Settings{.max_parallel = 0}));
  EXPECT_EQ(*settings_of({"weight=3"}), (Settings{.weight = 3}));
  EXPECT_EQ(*settings_of({"weight=none"}), (Settings{.weight = 0}));
}

TEST(Settings, EveryMistakeIsTold) {
  EXPECT_EQ(mistakes({"priority=high", "lanes=0", "prioriti=1"}),
            "priority=high: expected a whole number from -1000000 to 1000000\n"
            "lanes=0: expected a whole number from 1 to 100000\n"
            "unknown setting `prioriti`; expected `priority`, `weight`, `max_parallel` or "
            "`lanes`; "
            "did you mean `priority`?");
  EXPECT_EQ(mistakes({"max_parallel=0"}),
            "max_parallel=0: expected a whole number from 1 to 1000000, or `none`");
  EXPECT_EQ(mistakes({"priority=none"}),
            "priority=none: expected a whole number from -1000000 to 1000000");
  EXPECT_EQ(mistakes({"priority=1", "priority=2"}), "`priority` is given twice");
  EXPECT_NE(mistakes({"timeout=2h"}).find("change the sweep file and submit it again"),
            std::string::npos);
  EXPECT_EQ(mistakes({}),
            "nothing to set; expected priority=N, weight=N, max_parallel=N or lanes=N");
  for (const char* word : {"priority=", "priority=1.5", "priority= 1", "priority=99999999999",
                           "lanes=-1", "lanes=+1", "17"}) {
    EXPECT_NE(mistakes({word}), "none") << word;
  }
}

TEST(Settings, AreToldFromNamesOfRuns) {
  EXPECT_TRUE(is_setting("priority=5"));
  EXPECT_TRUE(is_setting("anything=5"));
  EXPECT_TRUE(is_setting("max-parallel=5"));
  for (const char* selector : {"17", "@", "thirteen", "thirteen/3", "thirteen/03-method=edm,seed=2",
                               "a=b/*", "thirteen/*/train", "=5", "3=5"}) {
    EXPECT_FALSE(is_setting(selector)) << selector;
  }
}

}  // namespace
}  // namespace pergpu
