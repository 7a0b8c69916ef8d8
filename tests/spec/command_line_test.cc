// `run [options] [-g NAME=V1,V2]… -- CMD ARG… ::: a b`: the model of GNU parallel's users.
#include "spec/schema/command_line.h"

#include <gtest/gtest.h>

#include "spec/schema/emit.h"
#include "spec/templates/placeholders.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

using Strings = std::vector<std::string>;

ParsedSweep parse(const Strings& words, CommandLineOptions options = {}) {
  options.folder = "/home/u";
  return sweep_from_command_line(options, words);
}

/// The argv of each run.
std::vector<Strings> argvs(const ParsedSweep& parsed) {
  std::vector<Strings> out;
  EXPECT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  if (!parsed.sweep) return out;
  for (const RunSpec& run : parsed.sweep->runs) {
    Result<RenderScope> scope = scope_of(run);
    EXPECT_TRUE(scope);
    Result<Strings> argv = render_argv(parsed.sweep->steps[0], *scope);
    EXPECT_TRUE(argv);
    if (argv) out.push_back(*argv);
  }
  return out;
}

TEST(CommandLine, OneCommandIsOneRunOfTheStepMain) {
  ParsedSweep parsed = parse({"python3", "./train.py", "--lr", "1"});
  ASSERT_TRUE(parsed.sweep);
  EXPECT_EQ(parsed.sweep->name, "train.py");
  EXPECT_EQ(parsed.sweep->folder, "/home/u");
  EXPECT_EQ(parsed.sweep->file, "");
  ASSERT_EQ(parsed.sweep->steps.size(), 1U);
  EXPECT_EQ(parsed.sweep->steps[0].name, "main");
  EXPECT_EQ(argvs(parsed), (std::vector<Strings>{{"python3", "./train.py", "--lr", "1"}}));
}

TEST(CommandLine, ValuesAreAppendedWithoutAPlaceholder) {
  EXPECT_EQ(argvs(parse({"echo", ":::", "a", "b c"})),
            (std::vector<Strings>{{"echo", "a"}, {"echo", "b c"}}));
  EXPECT_EQ(argvs(parse({"echo", ":::", "a", "b", ":::", "1", "2"})),
            (std::vector<Strings>{
                {"echo", "a", "1"}, {"echo", "a", "2"}, {"echo", "b", "1"}, {"echo", "b", "2"}}));
}

TEST(CommandLine, PositionalPlaceholdersStandForTheirLists) {
  EXPECT_EQ(
      argvs(parse({"echo", "-{}-", "{2}{1}", "{}", ":::", "a", ":::", "x", "y"})),
      (std::vector<Strings>{{"echo", "-a x-", "xa", "a", "x"}, {"echo", "-a y-", "ya", "a", "y"}}));
}

TEST(CommandLine, LinkedListsGoInStepWithTheListBefore) {
  EXPECT_EQ(argvs(parse({"echo", ":::", "a", "b", ":::+", "x", "y", ":::", "1", "2"})),
            (std::vector<Strings>{{"echo", "a", "x", "1"},
                                  {"echo", "a", "x", "2"},
                                  {"echo", "b", "y", "1"},
                                  {"echo", "b", "y", "2"}}));
}

TEST(CommandLine, NamedListsMultiply) {
  CommandLineOptions options;
  options.lists = {"lr=1e-4,1e-3", "model=[\"a,b\"]"};
  ParsedSweep parsed = parse({"t", "--lr={lr}", "{model}"}, options);
  EXPECT_EQ(argvs(parsed),
            (std::vector<Strings>{{"t", "--lr=1e-4", "a,b"}, {"t", "--lr=1e-3", "a,b"}}));
  EXPECT_EQ(parsed.sweep->runs[0].json, R"({"lr":0.0001,"model":"a,b"})");
  EXPECT_EQ(parsed.sweep->columns, Strings{"lr"});
}

TEST(CommandLine, ValuesAreNumbersOnlyWhenJsonWouldSayTheSame) {
  ParsedSweep parsed =
      parse({"t", ":::", "1", "007", "true", "1.50", "nan", "9007199254740993", "1e999"});
  EXPECT_EQ(jsons(*parsed.sweep),
            (Strings{R"({"arg1":1})", R"({"arg1":"007"})", R"({"arg1":true})", R"({"arg1":"1.50"})",
                     R"({"arg1":"nan"})", R"({"arg1":9007199254740993})", R"({"arg1":"1e999"})"}));
  EXPECT_EQ(argvs(parsed)[3], (Strings{"t", "1.50"}));
}

TEST(CommandLine, OptionsAreKeysOfTheStep) {
  CommandLineOptions options;
  options.name = "mine";
  options.out = "results";
  options.gpus = "1";
  options.cpus = "4";
  options.memory = "1GiB";
  options.gpu_memory = "20GiB";
  options.timeout = "2h";
  options.retries = "3";
  options.max_parallel = "2";
  options.priority = "-1";
  options.weight = "3";
  options.cwd = "/data/{x}";
  ParsedSweep parsed = parse({"t"}, options);
  ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  const StepSpec& s = parsed.sweep->steps[0];
  EXPECT_EQ(parsed.sweep->name, "mine");
  EXPECT_EQ(parsed.sweep->out, "/home/u/results");
  EXPECT_EQ(s.gpus, 1);
  EXPECT_EQ(s.cpus, 4);
  EXPECT_EQ(s.memory_bytes, 1ULL << 30);
  EXPECT_EQ(s.gpu_memory_bytes, 20ULL << 30);
  EXPECT_EQ(s.timeout, std::chrono::hours(2));
  EXPECT_EQ(s.retries.max, 3);
  EXPECT_EQ(s.max_parallel, 2);
  EXPECT_EQ(s.priority, -1);
  EXPECT_EQ(s.weight, 3);
  EXPECT_EQ(*render(s.cwd, RenderScope()), "/data/{x}");
}

TEST(CommandLine, AShareOfAGpuIsRoundedDownToThousandths) {
  CommandLineOptions options;
  options.gpus = "0.3334";
  ParsedSweep parsed = parse({"t"}, options);
  ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  EXPECT_EQ(parsed.sweep->steps[0].gpus, 1);
  EXPECT_EQ(parsed.sweep->steps[0].gpu_share, 333);
}

TEST(CommandLine, MistakesNameTheOptionOrTheWord) {
  CommandLineOptions options;
  options.memory = "64";
  options.gpus = "two";
  options.lists = {"lr"};
  options.name = "a/b";
  ParsedSweep parsed = parse({"t", "{lrr}"}, options);
  EXPECT_FALSE(parsed.sweep);
  std::string text = to_text(parsed.diagnostics);
  EXPECT_NE(text.find("-g lr: -g expects NAME=V1,V2"), std::string::npos) << text;
  options.lists = {"lr=1"};
  text = to_text(parse({"t", "{lrr}"}, options).diagnostics);
  EXPECT_EQ(
      text,
      "--gpus two: `gpus` must be a whole number, a share like 0.25, or \"auto\", not the string "
      "\"two\"\n"
      "--memory 64: `memory` must be a size, not the string \"64\": sizes need a unit: 64GiB, "
      "500MB\n"
      "--name a/b: a sweep can't be named \"a/b\": it becomes a folder name, so it can't contain "
      "/\n"
      "word \"{lrr}\": `command`: unknown placeholder {lrr}; did you mean {lr}?\n");
}

TEST(CommandLine, AMissingParameterIsAddedByAList) {
  CommandLineOptions options;
  options.lists = {"lr=1,2"};
  const std::string text = to_text(parse({"t", "{zzz}"}, options).diagnostics);
  EXPECT_NE(text.find("there is no parameter `zzz` (parameters: lr); pass -g zzz=V1,V2; or write "
                      "{{zzz}}"),
            std::string::npos)
      << text;
}

TEST(CommandLine, WhatCannotBeMeantIsRefused) {
  for (const Strings& words : std::vector<Strings>{{},
                                                   {":::", "a"},
                                                   {"t", ":::"},
                                                   {"t", ":::+", "a"},
                                                   {"t", ":::", "a", "b", ":::+", "x"},
                                                   {"t", "{2}", ":::", "a"},
                                                   {"t", "{0}", ":::", "a"},
                                                   {"t", "{.}", ":::", "a"},
                                                   {"t", "{1/}", ":::", "a"},
                                                   {"t", ":::", "a", "a"},
                                                   {"t", "::::", "file"},
                                                   {"echo hi"}})
    EXPECT_FALSE(parse(words).sweep) << (words.empty() ? "" : words.back());
  CommandLineOptions twice;
  twice.lists = {"a=1", "a=2"};
  EXPECT_FALSE(parse({"t"}, twice).sweep);
  twice.lists = {"a=1,,2"};
  EXPECT_FALSE(parse({"t"}, twice).sweep);
}

TEST(CommandLine, AShareOfAGpuNeedsNoLeadingZero) {
  CommandLineOptions options;
  options.gpus = ".5";
  const ParsedSweep parsed = parse({"t"}, options);
  ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  EXPECT_EQ(parsed.sweep->steps[0].gpu_share, 500);
  options.gpus = ".";
  EXPECT_NE(to_text(parse({"t"}, options).diagnostics).find("not the string \".\""),
            std::string::npos);
}

TEST(CommandLine, AnAssignmentBeforeTheProgramIsRefusedWithWhatToWrite) {
  const std::string text = to_text(parse({"FOO=1", "python3", "x"}).diagnostics);
  EXPECT_NE(text.find("write `env FOO=1 …`"), std::string::npos) << text;
  EXPECT_TRUE(parse({"env", "FOO=1", "python3", "x"}).sweep);
  EXPECT_TRUE(parse({"./a=b"}).sweep) << "a program of that name";
}

TEST(CommandLine, BracesWithoutListsStay) {
  EXPECT_EQ(argvs(parse({"find", ".", "-exec", "ls", "{}", "{1}"})),
            (std::vector<Strings>{{"find", ".", "-exec", "ls", "{}", "{1}"}}));
}

TEST(CommandLine, IsEmittedAsTheFileThatSaysTheSame) {
  CommandLineOptions options;
  options.name = "s";
  options.lists = {"lr=1e-4,0.10"};
  ParsedSweep parsed = parse({"t", "{lr}", ":::", "a b", "007", ":::+", "x", "y"}, options);
  ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  Result<std::string> text = emit_toml(*parsed.sweep);
  ASSERT_TRUE(text) << text.error().message;
  SweepSpec back = good(parse_toml(*text));
  EXPECT_EQ(back.runs, parsed.sweep->runs);
}

}  // namespace
}  // namespace pergpu
