// What a task tells of the present comes out elsewhere as it went in.
#include "store/present.h"

#include <gtest/gtest.h>

namespace pergpu::store {
namespace {

TEST(Present, ComesOutAsItWentIn) {
  Present busy{.attempt = {{17}, 2},
               .at_wall_ns = 1'700'000'000'000'000'000,
               .status = "epoch \"3\"",
               .progress = "3/10"};
  busy.reading[Measure::Cores] = 1.5F;
  busy.reading[Measure::GpuMemory] = 2e9F;
  busy.reading.throttle = 4;
  const Present quiet{.attempt = {{18}, 1}};
  const Result<std::vector<Present>> out = present_of(to_text({busy, quiet}));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(*out, (std::vector<Present>{busy, quiet}));
  EXPECT_FALSE((*out)[1].reading[Measure::Cores]) << "what was not told is not zero";
}

TEST(Present, RefusesWhatIsSomethingElse) {
  for (const char* text : {"", "{}", R"({"now":[{"job":1}]})", R"({"now":3})"}) {
    EXPECT_FALSE(present_of(text)) << text;
  }
  const Present present{.attempt = {{17}, 2}};
  std::string hot = to_text({present});
  hot.replace(hot.find("\"measures\":{"), 12, R"("measures":{"cores":1e300)");
  EXPECT_FALSE(present_of(hot)) << hot;
  EXPECT_FALSE(present_of(std::string(100'000, '[')));
}

}  // namespace
}  // namespace pergpu::store
