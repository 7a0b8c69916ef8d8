// Parameters that differ between runs and that no command uses: runs that are equal in all but
// name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "spec/schema/command_line.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

/// What is warned of in a sweep with a = [1, 2] and b = [1, 2]; "" where nothing is.
std::string warning_of(const std::string& steps) {
  ParsedSweep parsed = parse_toml("[grid]\na = [1, 2]\nb = [1, 2]\n" + steps);
  EXPECT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  return to_text(parsed.diagnostics);
}

std::string command(const std::string& text) { return "[steps.m]\ncommand = '''" + text + "'''\n"; }

TEST(UnusedParameters, AreNamedWithTheWayToUseThem) {
  const std::string text = warning_of(command("t --a {a}"));
  EXPECT_NE(text.find("t.toml:3:1: warning: no command uses `b`, so runs that differ only in it do "
                      "the same work; put {b} into a command, or {args}"),
            std::string::npos)
      << text;
  EXPECT_NE(warning_of(command("t")).find("no command uses `a`, `b`"), std::string::npos);
  EXPECT_NE(warning_of("[steps.m]\nshell = 't $PERGPU_PARAM_A $PERGPU_RUN'\n").find("uses `b`"),
            std::string::npos);
  EXPECT_NE(warning_of(command("t --a {a} --name {run} --out {out}")).find("uses `b`"),
            std::string::npos);
  EXPECT_NE(warning_of(command("t {a}") + "[steps.o]\nonce = true\ncommand = 'table {runs}'\n")
                .find("uses `b`"),
            std::string::npos)
      << "a table of the results does not make them differ";
}

TEST(UnusedParameters, AreNoneWhereACommandUsesThemAll) {
  for (const char* text :
       {"t {a} {b}", "t {config}", "t '{json}'", "t {index}", "t {args}", "t {overrides}",
        "t --file {out}/config.json", "python3 -m pergpu.x", "sh -c 't $PERGPU_CONFIG'"})
    EXPECT_EQ(warning_of(command(text)), "") << text;
  EXPECT_EQ(warning_of("[steps.m]\nshell = 't \"$PERGPU_PARAM_A\" \"$PERGPU_PARAM_B\"'\n"), "");
  EXPECT_EQ(warning_of("[steps.m]\nshell = 't {args} | cat'\n"), "");
  EXPECT_EQ(warning_of("[steps.m]\nshell = 't $PERGPU_CONFIG'\n"), "");
  EXPECT_EQ(warning_of(command("t {a}") + "[steps.n]\ncommand = 't'\nenv = { B = '{b}' }\n"), "");
}

TEST(UnusedParameters, AreNoneThatDoNotDifferOrOnlyRepeat) {
  EXPECT_EQ(to_text(parse_toml("[constants]\nc = 1\n[grid]\nrepeat = [1, 2]\nd = [1]\n" +
                               std::string(kStep))
                        .diagnostics),
            "");
}

TEST(UnusedParameters, MayBeReadByAProgramThatKnowsPergpu) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("unused." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto warning = [&](const std::string& program) {
    std::ofstream(folder / "t.py") << program;
    ParsedSweep parsed = parse_sweep("[grid]\na = [1, 2]\n[steps.m]\ncommand = 'python3 t.py'\n",
                                     SweepFormat::Toml, (folder / "t.toml").string());
    return to_text(parsed.diagnostics);
  };
  EXPECT_NE(warning("print(1)\n").find("no command uses `a`"), std::string::npos);
  EXPECT_EQ(warning("import pergpu\n"), "");
  for (const char* reads : {"os.environ['PERGPU_CONFIG']", "os.environ['PERGPU_PARAM_A']",
                            "k.startswith('PERGPU_')", "os.environ['PERGPU_RUN']"}) {
    EXPECT_EQ(warning(reads), "");
  }
  for (const char* other : {"open(os.environ['PERGPU_METRICS'], 'a')", "os.environ['PERGPU_OUT']",
                            "os.environ['PERGPU_JOB'], os.environ['PERGPU_SHARE']"}) {
    EXPECT_NE(warning(other).find("no command uses `a`"), std::string::npos) << other;
  }
  std::filesystem::remove_all(folder);
}

TEST(UnusedParameters, OfACommandLineAreNamedToo) {
  CommandLineOptions options;
  options.folder = "/nowhere";
  options.lists = {"model=mlp,resnet", "seed=1,2"};
  const ParsedSweep parsed =
      sweep_from_command_line(options, {"python3", "t.py", "--seed", "{seed}"});
  ASSERT_TRUE(parsed.sweep);
  EXPECT_NE(
      to_text(parsed.diagnostics).find("-g model=mlp,resnet: warning: no command uses `model`"),
      std::string::npos)
      << to_text(parsed.diagnostics);
}

TEST(SeveralWords, HaveTheirPlaces) {
  for (const auto& [step, hint] : std::vector<std::pair<std::string, std::string>>{
           {"command = 't x{args}'", "must be a separate word"},
           {"command = 't {a}'\nenv = { X = '{args}' }", "must be a separate word"},
           {"command = 't {a}'\ncwd = '{overrides}'", "must be a separate word"},
           {"shell = 't \"{args}\"'", "remove the quotes around it"},
           {"shell = 't {args} {overrides}'", "can't contain both"},
           {"once = true\ncommand = 't {args}'", "a once-step has no run"},
           {"once = true\nshell = 't {args}'", "a once-step has no run"}}) {
    const ParsedSweep parsed = parse_toml("[grid]\na = [1, 2]\n[steps.m]\n" + step + "\n");
    EXPECT_FALSE(parsed.sweep) << step;
    EXPECT_NE(to_text(parsed.diagnostics).find(hint), std::string::npos)
        << to_text(parsed.diagnostics);
  }
  EXPECT_TRUE(parse_toml("[grid]\nargs = ['x', 'y']\n[steps.m]\ncommand = 't -{args}'\n").sweep);
}

}  // namespace
}  // namespace pergpu
