#include "spec/sweep/wire.h"

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

TEST(Wire, NumbersThatDoNotFitAreRefusedNotCut) {
  const auto sweep_with = [](const std::string& field) {
    return sweep_from_wire(R"({"name":"s","steps":[{"name":"a",)" + field + "}]}");
  };
  EXPECT_TRUE(sweep_with(R"("cpus":2147483647)"));
  EXPECT_FALSE(sweep_with(R"("cpus":2147483648)"));
  EXPECT_FALSE(sweep_with(R"("cpus":4294967297)"));
  EXPECT_FALSE(sweep_with(R"("priority":-2147483649)"));
  EXPECT_FALSE(sweep_with(R"("timeout_ms":9223372036854775807)"));
  EXPECT_FALSE(sweep_with(R"("timeout_ms":18446744073709551615)"));
  EXPECT_FALSE(sweep_from_wire(R"({"name":"s","limits":[["a",4294967297]]})"));
}

TEST(Wire, TooManyStepsAndTooDeepATextAreRefused) {
  std::string steps;
  for (int i = 0; i < 10'001; ++i) steps += R"({"name":"a"},)";
  steps.pop_back();
  EXPECT_FALSE(sweep_from_wire(R"({"name":"s","steps":[)" + steps + "]}"));
  EXPECT_FALSE(sweep_from_wire(R"({"name":)" + std::string(1'000'000, '[')));
}

TEST(Wire, RunThatOtherReadersRefuseIsRefused) {
  EXPECT_TRUE(run_from_wire(R"({"json":{"a":"\ud83d\ude00"}})"));
  for (const char* text : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")",
                           "\"\xff\"", R"("\u12")"}) {
    EXPECT_FALSE(run_from_wire(R"({"json":{"a":)" + std::string(text) + "}}")) << text;
  }
}

}  // namespace
}  // namespace pergpu
