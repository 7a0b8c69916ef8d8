// Good files: three spellings of the same sweep are the same SweepSpec, and each value lands where
// it belongs.
#include "spec/schema/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "test_sweeps.h"

namespace pergpu {
namespace {

const std::string kGood = std::string(PERGPU_TEST_DATA) + "/good/";

using Strings = std::vector<std::string>;

class Spellings : public testing::TestWithParam<const char*> {};

TEST_P(Spellings, OfTheSameSweepAreEqual) {
  SweepSpec toml = good(load_sweep(kGood + GetParam() + ".toml"));
  for (const char* extension : {".yaml", ".json"}) {
    SweepSpec other = good(load_sweep(kGood + GetParam() + extension));
    EXPECT_EQ(other.file, kGood + GetParam() + extension);
    other.file = toml.file;
    EXPECT_EQ(other.runs, toml.runs);
    EXPECT_EQ(other.steps, toml.steps);
    EXPECT_EQ(other, toml) << extension;
  }
}

INSTANTIATE_TEST_SUITE_P(Good, Spellings, testing::Values("thirteen", "everything"));

TEST(Load, TheStepsAndRunsOfTheDesignAreRight) {
  SweepSpec sweep = good(load_sweep(kGood + "thirteen.toml"));
  EXPECT_EQ(sweep.name, "thirteen");
  EXPECT_EQ(sweep.folder + "/", kGood);
  EXPECT_EQ(sweep.columns, (Strings{"method", "seed"}));
  ASSERT_EQ(sweep.runs.size(), 12U);
  EXPECT_EQ(sweep.runs[0].json, R"({"method":"ddpm","seed":0})");
  EXPECT_EQ(sweep.runs[1].json, R"({"method":"ddpm","seed":1})");
  EXPECT_EQ(sweep.runs[11].json, R"({"method":"flow","seed":3})");
  ASSERT_EQ(sweep.steps.size(), 3U);
  EXPECT_EQ(sweep.steps[0].name, "classifier");
  EXPECT_EQ(sweep.steps[1].memory_bytes, 32ULL << 30);
  EXPECT_EQ(sweep.steps[2].command, (Strings{"python3", "evaluate.py", "--model",
                                             "{train.out}/model.pt", "--metrics", "{metrics}"}));
  EXPECT_EQ(sweep.steps[2].needs, (std::vector<Need>{{.step = 1}, {.step = 0}}));
}

class TemporaryFiles : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

 private:
  std::string folder_ = [] {
    std::string pattern = testing::TempDir() + "/pergpu-load-XXXXXX";
    return std::string(::mkdtemp(pattern.data()));
  }();
};
using FormatOfAFile = TemporaryFiles;

TEST_F(FormatOfAFile, IsThatOfItsEndingInAnyCase) {
  const std::string json = R"({"steps": {"a": {"command": ["true"]}}})";
  const std::string yaml = "steps:\n  a:\n    command: ['true']\n";
  const std::string toml = "[steps.a]\ncommand = ['true']\n";
  for (const char* name : {"a.JSON", "a.Json"})
    EXPECT_EQ(good(load_sweep(file(name, json))).name, "a");
  for (const char* name : {"b.YAML", "b.yML"})
    EXPECT_EQ(good(load_sweep(file(name, yaml))).name, "b");
  EXPECT_EQ(good(load_sweep(file("c.TOML", toml))).name, "c");
}

TEST_F(FormatOfAFile, RowsAreReadByTheirEndingInAnyCase) {
  for (const auto& [name, rows] :
       std::vector<std::pair<std::string, std::string>>{{"r.CSV", "i\n1\n2\n"},
                                                        {"r.JSONL", "{\"i\":1}\n{\"i\":2}\n"},
                                                        {"r.Json", "[{\"i\":1},{\"i\":2}]"}}) {
    file(name, rows);
    const std::string text = "runs_from = \"" + name + "\"\n[steps.a]\ncommand = ['true']\n";
    EXPECT_EQ(good(load_sweep(file("s.toml", text))).runs.size(), 2U) << name;
  }
}

TEST_F(FormatOfAFile, WhatComesThroughAPipeIsReadByItsFirstLine) {
  const auto through_pipe = [&](const std::string& text) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    const ParsedSweep parsed = load_sweep("/dev/fd/" + std::to_string(ends[0]));
    ::close(ends[0]);
    return good(parsed);
  };
  for (const char* text : {"name = 'x'\n[steps.a]\ncommand = 'echo a:b'\n",
                           "# a: b\n\n\"name\" = 'x'\n[steps.a]\ncommand = ['true']\n",
                           "---\nname: x\nsteps: {a: {command: ['true']}}\n",
                           "# y = 1\nname: \"x\"\nsteps: {a: {command: ['true']}}\n",
                           " {\"name\": \"x\", \"steps\": {\"a\": {\"command\": [\"true\"]}}}"}) {
    const SweepSpec sweep = through_pipe(text);
    EXPECT_EQ(sweep.name, "x") << text;
    EXPECT_EQ(sweep.file, "");
  }
}

TEST(Load, EveryKeyReachesItsField) {
  SweepSpec sweep = good(load_sweep(kGood + "everything.toml"));
  EXPECT_EQ(sweep.out, "../results");
  EXPECT_EQ(sweep.limits, (std::vector<std::pair<std::string, int>>{{"license", 2}}));
  EXPECT_EQ(sweep.columns, (Strings{"method", "lr", "width", "batch", "seed", "noise"}));
  EXPECT_EQ(sweep.runs.size(), 24U);
  const StepSpec& s = sweep.steps[1];
  EXPECT_EQ(s.command, (Strings{"python3", "train.py", "--lr", "{lr}", "--tag", "two words",
                                "{{lr}}", "--table", "{prepare.out}/list"}));
  EXPECT_EQ(s.gpus, 1);
  EXPECT_EQ(s.gpu, "*H100*");
  EXPECT_EQ(s.outsiders, Outsiders::Ignore);
  EXPECT_EQ(s.cpus, 4);
  EXPECT_EQ(s.memory_bytes, 3ULL << 29);
  EXPECT_TRUE(s.overcommit);
  EXPECT_EQ(s.timeout, std::chrono::hours(26));
  EXPECT_EQ(s.grace, std::chrono::seconds(5));
  EXPECT_EQ(s.retries.max, 2);
  EXPECT_FALSE(s.rerun);
  EXPECT_EQ(s.max_parallel, 3);
  EXPECT_EQ(s.uses, Strings{"license"});
  EXPECT_EQ(s.max_starting, 2);
  EXPECT_EQ(s.ready, std::chrono::minutes(1));
  EXPECT_EQ(s.priority, -5);
  EXPECT_EQ(s.weight, 3);
  EXPECT_EQ(s.expect, "{batch}m");
  EXPECT_EQ(s.env, (std::vector<std::pair<std::string, Template>>{
                       {"TZ", "UTC"}, {"MODE", "{method}"}, {"THREADS", "4"}}));
  EXPECT_EQ(s.env_pass, (Strings{"HOME", "WANDB_*"}));
  EXPECT_EQ(s.cwd, "work/{method}");
  EXPECT_EQ(s.gpu_env, GpuEnv::Index);
  EXPECT_EQ(s.outputs, (Strings{"{out}/model.pt", "{metrics}"}));
  EXPECT_EQ(s.metrics, "{out}/scores.jsonl");
  EXPECT_EQ(s.fake, (FakeRun{.duration = "{width}ms", .exit = "{seed}"}));
  const StepSpec& prepare = sweep.steps[0];
  EXPECT_TRUE(prepare.once);
  EXPECT_EQ(prepare.cpus, 2);
  EXPECT_EQ(prepare.grace, std::chrono::seconds(10));
  EXPECT_EQ(prepare.env[1].second, "default");
  EXPECT_EQ(sweep.steps[2].needs, (std::vector<Need>{{.step = 1, .scope = Need::Scope::Ended}}));
}

TEST(Load, DefaultsOfAnEmptyStepAreThoseOfTheDocument) {
  StepSpec expected;
  expected.name = "train";
  expected.command = {"true"};
  SweepSpec sweep = good(parse_toml(kStep));
  EXPECT_EQ(sweep.steps[0], expected);
  EXPECT_EQ(sweep.runs, (std::vector<RunSpec>{RunSpec()}));
  EXPECT_EQ(sweep.name, "t");
}

TEST(Load, AFileThatIsMissingOrHugeOrNoFileIsAClearError) {
  ParsedSweep missing = load_sweep(kGood + "absent.toml");
  ASSERT_EQ(missing.diagnostics.size(), 1U);
  EXPECT_NE(missing.diagnostics[0].message.find("No such file"), std::string::npos);
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "pergpu_load_test.toml";
  std::filesystem::create_directory(folder);
  EXPECT_NE(load_sweep(folder.string()).diagnostics[0].message.find("not a regular file"),
            std::string::npos);
  std::filesystem::remove(folder);
  std::ofstream(folder).close();
  std::filesystem::resize_file(folder, (64U << 20) + 1);
  EXPECT_NE(load_sweep(folder.string()).diagnostics[0].message.find("larger than 64 MiB"),
            std::string::npos);
  std::filesystem::remove(folder);
}

TEST(Load, AByteOrderMarkAndCrlfAreNoMistakes) {
  for (const char* text :
       {"\xEF\xBB\xBF[grid]\r\na = [1]\r\n[steps.m]\r\ncommand = \"t {a}\"\r\n"}) {
    SweepSpec sweep = good(parse_toml(text));
    EXPECT_EQ(sweep.steps[0].command, (Strings{"t", "{a}"}));
  }
  EXPECT_EQ(good(parse_sweep("\xEF\xBB\xBFsteps: {m: {command: [t]}}", SweepFormat::Yaml, "t.yaml"))
                .steps.size(),
            1U);
  EXPECT_EQ(good(parse_sweep("\xEF\xBB\xBF{\"steps\": {\"m\": {\"command\": [\"t\"]}}}",
                             SweepFormat::Json, "t.json"))
                .steps.size(),
            1U);
}

TEST(Load, OutOfTheCommandLineIsRelativeToTheCaller) {
  LoadOptions options;
  options.out = "elsewhere";
  SweepSpec sweep = good(load_sweep(kGood + "everything.toml", options));
  EXPECT_EQ(sweep.out, (std::filesystem::current_path() / "elsewhere").string());
}

TEST(Overrides, ReplaceWhatTheFileSays) {
  std::string file =
      "[grid]\na = [1, 2]\nb = [3]\n[constants]\nc = 1\nd = 1\ne = 1\n" + std::string(kStep);
  LoadOptions options;
  options.overrides = {
      {"a", "7"}, {"c", "[1e-1, \"x\"]"}, {"d", "plain text"}, {"e", "{from=1,to=2,n=2}"}};
  SweepSpec sweep = good(parse_toml(file, options));
  EXPECT_EQ(jsons(sweep), (Strings{R"({"a":7,"b":3,"c":0.1,"d":"plain text","e":1})",
                                   R"({"a":7,"b":3,"c":0.1,"d":"plain text","e":2})",
                                   R"({"a":7,"b":3,"c":"x","d":"plain text","e":1})",
                                   R"({"a":7,"b":3,"c":"x","d":"plain text","e":2})"}));
  EXPECT_EQ(sweep.runs[0].texts, R"({"c":"1e-1"})");
}

TEST(Overrides, ReachRowsAndRowsOfFiles) {
  LoadOptions options;
  options.overrides = {{"lr", "3"}};
  SweepSpec rows = good(parse_toml(
      "[[runs]]\nlr = 1\nb = 1\n[[runs]]\nlr = 2\nb = 2\n" + std::string(kStep), options));
  EXPECT_EQ(jsons(rows), (Strings{R"({"b":1,"lr":3})", R"({"b":2,"lr":3})"}));
  SweepSpec from = good(load_sweep(kGood + "from_jsonl.toml", options));
  EXPECT_EQ(jsons(from), (Strings{R"({"lr":3,"name":"a"})", R"({"lr":3,"name":"b"})"}));
}

TEST(Overrides, ThatAreWrongNameTheOption) {
  LoadOptions options;
  options.overrides = {{"a-b", "1"}, {"x", "1"}, {"x", "2"}, {"out", "1"}, {"y", "inf"}};
  ParsedSweep parsed =
      parse_toml("[constants]\nx = 1\nout = 1\ny = 1\n" + std::string(kStep), options);
  ASSERT_FALSE(parsed.sweep);
  std::string text = to_text(parsed.diagnostics);
  EXPECT_NE(text.find("-p a-b=1: "), std::string::npos) << text;
  EXPECT_NE(text.find("-p x is given twice"), std::string::npos) << text;
  EXPECT_NE(text.find("-p out=1: a parameter can't be named `out`"), std::string::npos) << text;
  EXPECT_NE(text.find("-p y=inf: parameter `y`: inf can't"), std::string::npos) << text;
}

std::string refusal_of_override(const std::string& name, const ParsedSweep& parsed) {
  EXPECT_FALSE(parsed.sweep) << name;
  EXPECT_EQ(parsed.diagnostics.size(), 1U) << to_text(parsed.diagnostics);
  return to_text(parsed.diagnostics);
}

TEST(Overrides, OfAParameterThatTheFileHasNotNameTheNearest) {
  LoadOptions options;
  options.overrides = {{"sede", "3"}};
  std::string grid = "[grid]\nseed = [1, 2]\n" + std::string(kStep);
  std::string rows = "[[runs]]\nseed = 1\n[[runs]]\nseed = 2\n" + std::string(kStep);
  for (const std::string& file : {grid, rows})
    EXPECT_NE(refusal_of_override("sede", parse_toml(file, options))
                  .find("-p sede=3: the file has no parameter `sede`; did you mean `seed`?"),
              std::string::npos)
        << file;
  EXPECT_NE(refusal_of_override("sede", parse_toml(kStep, options)).find("-p only replaces"),
            std::string::npos);
  options.overrides = {{"nmae", "[1, 2]"}};
  EXPECT_NE(refusal_of_override("nmae", load_sweep(kGood + "from_jsonl.toml", options))
                .find("did you mean `name`?"),
            std::string::npos);
}

}  // namespace
}  // namespace pergpu
