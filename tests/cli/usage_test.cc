// What a wrong command line gets: exit code 2, the mistake in words, nothing started.
#include "cli/command/usage.h"

#include <gtest/gtest.h>

#include <fstream>

#include "program.h"
#include "version.h"

namespace pergpu::cli {
namespace {

TEST(MistypedCommand, NamesTheNearest) {
  EXPECT_NE(mistyped_command({"cancle"}).find("did you mean `cancel`?"), std::string::npos);
  EXPECT_NE(mistyped_command({"statsu"}).find("did you mean `coordinator status`?"),
            std::string::npos);
  EXPECT_NE(mistyped_command({"list"}).find("did you mean `ps`?"), std::string::npos);
  EXPECT_NE(mistyped_command({"train.py"}).find("unknown command `train.py`"), std::string::npos);
  EXPECT_NE(mistyped_command({"stop"}).find("did you mean `cancel`?"), std::string::npos);
  EXPECT_NE(mistyped_command({"delete"}).find("did you mean `clean`?"), std::string::npos);
  EXPECT_EQ(mistyped_command({"ps"}), "");
  EXPECT_EQ(mistyped_command({"--help"}), "");
  EXPECT_EQ(mistyped_command({}), "");
}

class CommandLine : public testing::Test {
 protected:
  void SetUp() override { NEEDS_BINARY(); }

  /// Exit code 2, `words` on stderr, nothing on stdout, no coordinator.
  void refused(const std::vector<std::string>& arguments, const std::string& words) {
    Program program(scratch_, arguments);
    EXPECT_EQ(program.wait(), 2) << program.err;
    EXPECT_NE(program.err.find(words), std::string::npos) << program.err;
    EXPECT_EQ(program.out, "");
    EXPECT_FALSE(std::filesystem::exists(scratch_.home() + "/coordinator.log"));
  }

  const Scratch scratch_;
};

TEST_F(CommandLine, AMistypedCommandIsNeverAJob) {
  refused({"statsu"}, "unknown command `statsu`");
  refused({"coordinator"}, "subcommand is required");
}

TEST_F(CommandLine, AMistypedOptionNamesTheNearest) {
  refused({"run", "--detahc", "x.toml"}, "did you mean `--detach`?");
  refused({"ps", "--jsn"}, "did you mean `--json`?");
  refused({"--json", "ps"}, "write it after `ps`");
}

TEST_F(CommandLine, TheValueOfAnUnknownOptionIsNoMistake) {
  const std::string only =
      "pergpu: unknown option `--lane`; did you mean `--lanes`?\n`pergpu run --help` has";
  refused({"run", "x.toml", "--lane", "2"}, only);
  refused({"run", "--lane", "2", "x.toml"}, only);
  refused({"run", "x.toml", "--lane=2"}, only);
  refused({"submit", "--lane", "2", "x.toml"}, "unknown option `--lane`; did you mean `--lanes`?");
  refused({"logs", "1", "--lin", "3"}, "unknown option `--lin`; did you mean `--lines`?");
  refused({"ps", "--color", "blue", "--jsn"}, "--color: ");
}

TEST_F(CommandLine, AnOptionOfOtherProgramsIsAnsweredWithOurs) {
  refused({"ps", "--failed"}, "unknown option `--failed`; `pergpu ps -a` lists ended jobs too");
  refused({"ps", "--state=failed"}, "unknown option `--state`; `pergpu ps -a` lists");
  refused({"logs", "17", "--tail", "5"}, "unknown option `--tail`; did you mean `--lines`?");
  refused({"logs", "--tail", "5", "17"}, "unknown option `--tail`; did you mean `--lines`?");
  refused({"export", "--format", "json"}, "did you mean `--csv`, `--jsonl` or `--trace`?");
}

TEST_F(CommandLine, WhatIsMissingIsNamed) {
  refused({"run"}, "name a sweep file");
  refused({"cancel"}, "SEL");
  refused({"show"}, "SEL");
  refused({"run", "--"}, "command");
}

TEST_F(CommandLine, OptionsOfTheOtherFormAreErrorsNotIgnored) {
  refused({"run", "--gpus", "1", "x.toml"}, "--gpus is for commands");
  refused({"run", "-g", "a=1", "x.toml"}, "-g is for commands");
  refused({"run", "-p", "a=1", "--", "true"}, "-p replaces a parameter of a sweep file");
  refused({"run", "x.toml", "--", "true"}, "not both");
  refused({"run", "-p", "novalue", "x.toml"}, "expected KEY=VALUE");
  refused({"run", "--rerun", "--only-new", "x.toml"}, "exclude each other");
}

TEST_F(CommandLine, ValuesAreChecked) {
  refused({"run", "--lanes", "-1", "x.toml"}, "--lanes");
  refused({"run", "--lanes", "0", "--", "true"}, "--lanes");
  refused({"run", "--engine", "magic", "x.toml"}, "--engine");
  refused({"ps", "--color", "blue"}, "--color");
  refused({"wait", "--timeout", "10", "x"}, "--timeout");
  refused({"run", "--timeout", "10", "--", "true"}, "timeout");
  refused({"run", "--gpu-memory", "10GiB", "--", "true"}, "requests no GPU");
  refused({"logs", "-n", "-5", "17"}, "--lines");
}

TEST_F(CommandLine, ABrokenSweepFileStartsNothing) {
  std::ofstream(scratch_.path() + "/bad.toml") << "name = \"bad\"\n[grid]\nlr = [1]\n"
                                                  "[steps.train]\ncomand = [\"true\"]\n";
  refused({"run", "bad.toml"}, "bad.toml:5");
  refused({"submit", "bad.toml"}, "comand");
  refused({"run", "missing.toml"}, "missing.toml");
}

TEST_F(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const char* name :
       {"run", "submit", "attach", "ps", "show", "why", "logs", "cancel", "hold", "release",
        "retry", "set", "wait", "clean", "gpus", "coordinator", "store"}) {
    Program program(scratch_, {name, "--help"});
    EXPECT_EQ(program.wait(), 0) << name;
    EXPECT_NE(program.out.find("Example"), std::string::npos) << program.out;
    EXPECT_NE(program.out.find(std::string("pergpu ") + name), std::string::npos) << program.out;
  }
  Program program(scratch_, {"--help"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_NE(program.out.find("Example"), std::string::npos);
  EXPECT_EQ(program.out.find("probe"), std::string::npos);
}

TEST_F(CommandLine, VersionCommitAndTargetGoToStdout) {
  Program program(scratch_, {"--version"});
  EXPECT_EQ(program.wait(), 0);
  const std::string begin = std::string("pergpu ") + PERGPU_VERSION + " (commit ";
  EXPECT_TRUE(program.out.starts_with(begin)) << program.out;
  const std::size_t comma = program.out.find(", ");
  ASSERT_NE(comma, std::string::npos) << program.out;
  EXPECT_GT(comma, begin.size());
  EXPECT_NE(program.out.find("-linux", comma), std::string::npos) << program.out;
  EXPECT_TRUE(program.out.ends_with(")\n")) << program.out;
}

TEST_F(CommandLine, EmitStartsNothingAndADryRunNoJob) {
  Program emit(scratch_, {"run", "--emit", "-g", "x=1,2", "--", "echo", "{x}"});
  EXPECT_EQ(emit.wait(), 0) << emit.err;
  EXPECT_NE(emit.out.find("[steps.main]"), std::string::npos) << emit.out;
  EXPECT_FALSE(std::filesystem::exists(scratch_.home() + "/coordinator.log"));
  Program dry(scratch_, {"run", "--dry-run", "--json", "-g", "x=1,2", "--", "echo", "{x}"});
  EXPECT_EQ(dry.wait(), 0) << dry.err;
  EXPECT_NE(dry.out.find("\"schema\":1"), std::string::npos) << dry.out;
  Program table(scratch_, {"run", "--dry-run", "-g", "x=1,2", "--", "echo", "{x}"});
  EXPECT_EQ(table.wait(), 0) << table.err;
  EXPECT_NE(table.out.find("01-x=2"), std::string::npos) << table.out;
  Program jobs(scratch_, {"ps", "-a", "--json"});
  EXPECT_EQ(jobs.wait(), 0) << jobs.err;
  EXPECT_NE(jobs.out.find("\"jobs\":[]"), std::string::npos) << jobs.out;
  Program stop(scratch_, {"coordinator", "stop"});
  EXPECT_EQ(stop.wait(), 0) << stop.err;
}

TEST_F(CommandLine, StatusAndStopStartNothing) {
  Program status(scratch_, {"coordinator", "status"});
  EXPECT_EQ(status.wait(), 3);
  EXPECT_NE(status.err.find("no coordinator is running"), std::string::npos);
  Program stop(scratch_, {"coordinator", "stop"});
  EXPECT_EQ(stop.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_.home() + "/coordinator.log"));
}

TEST_F(CommandLine, EnableWithoutAUserManagerSaysWhyNot) {
  Program enable(scratch_, {"coordinator", "enable"});
  EXPECT_EQ(enable.wait(), 3);
  EXPECT_NE(enable.err.find("no systemd user manager"), std::string::npos) << enable.err;
  EXPECT_NE(enable.err.find("@reboot PERGPU_HOME=/"), std::string::npos) << enable.err;
  EXPECT_NE(enable.err.find("/pergpu ps"), std::string::npos) << enable.err;
}

}  // namespace
}  // namespace pergpu::cli
