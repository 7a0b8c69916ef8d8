// Long values: what is kept out of the environment, and what no kernel would start.
#include "spec/templates/start_size.h"

#include <gtest/gtest.h>

#include "spec/templates/run_parameters.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

SweepSpec sweep(const std::string& value, const std::string& step) {
  return good(parse_sweep("{\"constants\": {\"prompt\": \"" + value +
                              "\", \"seed\": 1}, \"steps\": "
                              "{\"m\": {" +
                              step + "}}}",
                          SweepFormat::Json, "t.json"));
}

std::vector<std::string> variables(const SweepSpec& s) {
  std::vector<std::string> names;
  for (const auto& [name, value] : param_env(*RunParameters::parse(s.runs[0]), s.steps[0]))
    names.push_back(name);
  return names;
}

using Strings = std::vector<std::string>;

TEST(ParameterVariables, AreThoseOfShortValuesAndThoseThatAreNamed) {
  const std::string text(kMostParamEnvBytes, 'a');
  EXPECT_EQ(variables(sweep("a", "\"command\": \"t {config}\"")),
            (Strings{"PERGPU_PARAM_PROMPT", "PERGPU_PARAM_SEED"}));
  EXPECT_EQ(variables(sweep(text, "\"command\": \"t {config}\"")), Strings{"PERGPU_PARAM_SEED"});
  EXPECT_EQ(variables(sweep(text, "\"shell\": \"t $PERGPU_PARAM_PROMPT\"")),
            (Strings{"PERGPU_PARAM_PROMPT", "PERGPU_PARAM_SEED"}));
}

TEST(ParameterVariables, AreNotMoreThanAStartCanHave) {
  RunSpec run{.json = "{\"a\":1"};
  for (int i = 0; i < 100; ++i)
    run.json += ",\"p" + std::to_string(i) + "\":\"" + std::string(8'000, 'x') + "\"";
  run.json += "}";
  std::size_t bytes = 0;
  bool has_short = false;
  for (const auto& [name, value] : param_env(*RunParameters::parse(run), StepSpec{})) {
    bytes += name.size() + value.size();
    has_short |= name == "PERGPU_PARAM_A";
  }
  EXPECT_LE(bytes, kMostParamEnvBytesInAll);
  EXPECT_GT(bytes, kMostParamEnvBytesInAll / 2);
  EXPECT_TRUE(has_short);
}

TEST(StartSize, OfALongValueCountsWhereItIsUsed) {
  const std::string text(200'000, 'a');
  EXPECT_LT(start_size(sweep("a", "\"command\": \"t {config}\"").steps[0],
                       {.json = "{\"prompt\":\"" + text + "\"}"})
                ->total,
            1'000U);
  const SweepSpec s = sweep("a", "\"command\": [\"t\", \"--prompt={prompt}\"]");
  const Result<StartSize> size = start_size(s.steps[0], {.json = "{\"prompt\":\"" + text + "\"}"});
  ASSERT_TRUE(size);
  EXPECT_EQ(size->longest, text.size() + 9);
  EXPECT_EQ(size->where, "command");
  EXPECT_EQ(size->parameter, "prompt");
}

TEST(StartSize, ThatNoKernelTakesIsRefused) {
  const std::string text(131'072, 'a');
  const auto refusal = [&](const std::string& step) {
    const ParsedSweep parsed = parse_sweep(
        "{\"grid\": {\"prompt\": [\"b\", \"" + text + "\"]}, \"steps\": {\"m\": {" + step + "}}}",
        SweepFormat::Json, "t.json");
    return parsed.sweep ? std::string() : to_text(parsed.diagnostics);
  };
  EXPECT_EQ(refusal("\"command\": \"wc {config}\""), "");
  EXPECT_EQ(refusal("\"shell\": \"wc $PERGPU_CONFIG\""), "");
  for (const char* step :
       {"\"command\": \"t {prompt}\"", "\"command\": \"t {json}\"", "\"command\": \"t {args}\"",
        "\"command\": \"t {overrides}\"", "\"shell\": \"t {args}\""})
    EXPECT_NE(refusal(step).find("(`prompt` of run 1), but the kernel allows at most 131071"),
              std::string::npos)
        << step << refusal(step);
  EXPECT_NE(refusal("\"command\": \"t\", \"env\": {\"P\": \"{prompt}\"}").find("`env`: "),
            std::string::npos);
  const std::string shell = refusal("\"shell\": \"t \\\"$PERGPU_PARAM_PROMPT\\\"\"");
  EXPECT_NE(shell.find("$PERGPU_CONFIG"), std::string::npos) << shell;
}

/// A file of a megabyte would be a terabyte of arguments.
TEST(StartSize, IsFoundOutWithoutMakingTheText) {
  const std::string value(1'000'000, 'a');
  std::string many;
  for (int i = 0; i < 300'000; ++i) many += "{n}";
  StepSpec step;
  step.command = {"echo", many};
  const RunSpec run{.json = "{\"n\":\"" + value + "\"}"};
  const Result<StartSize> size = start_size(step, run);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->longest, 300'000u * value.size());
  const Result<RenderScope> scope = scope_of(run);
  const Result<std::string> text = render(many, *scope);
  ASSERT_FALSE(text) << "who renders it nevertheless gets no further than one value";
  EXPECT_NE(text.error().message.find("too many to pass to a program"), std::string::npos);
  step.command.assign(200'000, "{args}");
  EXPECT_EQ(start_size(step, run)->longest, value.size() + 4);
  EXPECT_FALSE(render_argv(step, *scope));
}

TEST(StartSize, OfManyShortValuesInOneArgumentIsSeenInEveryRun) {
  std::string many;
  for (int i = 0; i < 500; ++i) many += "{n}";
  const std::string value(1'000, 'a');
  const ParsedSweep parsed =
      parse_sweep("{\"grid\": {\"n\": [\"b\", \"c\", \"" + value +
                      "\"]}, \"steps\": {\"m\": {\"command\": [\"t\", \"" + many + "\"]}}}",
                  SweepFormat::Json, "t.json");
  EXPECT_FALSE(parsed.sweep);
  EXPECT_NE(to_text(parsed.diagnostics).find("500000 bytes (`n` of run 2)"), std::string::npos)
      << to_text(parsed.diagnostics);
}

TEST(StartSize, OfAOnceStepIsLookedAtToo) {
  std::string rows;
  for (int i = 0; i < 1'000; ++i) rows += (i > 0 ? "," : "") + std::to_string(i);
  std::string many;
  for (int i = 0; i < 20; ++i) many += "{runs}";
  const auto refusal = [&](const std::string& command) {
    const ParsedSweep parsed = parse_sweep(
        "{\"grid\": {\"i\": [" + rows + "]}, \"steps\": {\"m\": {\"command\": \"t\"}, \"sum\": {" +
            "\"once\": true, \"needs\": \"m:all\", " + command + "}}}",
        SweepFormat::Json, "t.json");
    return parsed.sweep ? std::string() : to_text(parsed.diagnostics);
  };
  EXPECT_EQ(refusal("\"command\": [\"t\", \"{runs}\"]"), "");
  EXPECT_NE(
      refusal("\"command\": [\"t\", \"" + many + "\"]").find("the kernel allows at most 131071"),
      std::string::npos);
  EXPECT_NE(refusal("\"shell\": \": " + std::string(140'000, 'x') + "\"").find("`shell`"),
            std::string::npos);
}

TEST(ShellWords, StandForEachOfTheirPlaceholders) {
  StepSpec step;
  for (int i = 0; i < 20'000; ++i) step.shell += ": {args} ${args};";
  const Result<RenderScope> scope = scope_of({.json = "{\"a\":1}"});
  const Result<std::vector<std::string>> argv = render_argv(step, *scope);
  ASSERT_TRUE(argv);
  EXPECT_TRUE((*argv)[2].starts_with(": \"$@\" ${args};: \"$@\" ${args};"));
  EXPECT_EQ((*argv)[2].find("{args} $"), std::string::npos);
}

}  // namespace
}  // namespace pergpu
