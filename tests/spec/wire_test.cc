#include "spec/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arbitrary.h"

namespace pergpu {
namespace {

TEST(Wire, EverySweepComesBackWithoutItsRuns) {
  EXPECT_TRUE(rc::check([] {
    SweepSpec sweep = *arbitrary_sweep();
    std::string line = to_wire(sweep);
    RC_ASSERT(line.find('\n') == std::string::npos);
    Result<SweepSpec> back = sweep_from_wire(line);
    RC_ASSERT(static_cast<bool>(back));
    sweep.runs.clear();
    RC_ASSERT(*back == sweep);
  }));
}

TEST(Wire, EveryRunComesBack) {
  EXPECT_TRUE(rc::check([] {
    nlohmann::json texts = nlohmann::json::object();
    texts["lr"] = *arbitrary_text();
    nlohmann::json parameters = nlohmann::json::object();
    parameters["lr"] = *arbitrary_json(2);
    RunSpec run{.json = canonical_json(parameters), .texts = canonical_json(texts)};
    std::string line = to_wire(run);
    RC_ASSERT(line.find('\n') == std::string::npos);
    Result<RunSpec> back = run_from_wire(line);
    RC_ASSERT(static_cast<bool>(back));
    RC_ASSERT(*back == run);
  }));
}

TEST(Wire, AbsentFieldsHaveTheirDefaultsAndUnknownOnesAreIgnored) {
  Result<SweepSpec> sweep = sweep_from_wire(
      R"({"name":"s","of_the_future":[1],"steps":[{"name":"train","command":["true"],"colour":"red"}]})");
  ASSERT_TRUE(sweep);
  StepSpec expected;
  expected.name = "train";
  expected.command = {"true"};
  ASSERT_EQ(sweep->steps.size(), 1U);
  EXPECT_EQ(sweep->steps[0], expected);
}

TEST(Wire, AWrongTypeIsCorruptAndNamesTheField) {
  Result<SweepSpec> sweep = sweep_from_wire(R"({"name":"s","steps":[{"name":"a","gpus":"1"}]})");
  ASSERT_FALSE(sweep);
  EXPECT_EQ(sweep.error().kind, ErrorKind::Corrupt);
  EXPECT_NE(sweep.error().message.find("gpus"), std::string::npos);
}

TEST(Wire, ANeedBeyondTheStepsIsCorrupt) {
  EXPECT_FALSE(sweep_from_wire(R"({"steps":[{"name":"a","needs":[{"step":1}]}]})"));
  EXPECT_FALSE(sweep_from_wire(R"({"steps":[{"name":"a","needs":[{"step":-1}]}]})"));
}

TEST(Wire, ADamagedRunLineIsCorrupt) {
  for (const char* line : {"", "{}", "[]", "{\"json\":1}", "{\"json\":{\"a\":}}", "{\"json\":{}} x",
                           "{\"json\":{},\"texts\":3}", "{\"json\":{\"a\":\"\\u00g0\"}}"}) {
    Result<RunSpec> run = run_from_wire(line);
    EXPECT_FALSE(run) << line;
  }
}

}  // namespace
}  // namespace pergpu
