#include "os/process/program_trouble.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fixture.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

class ProgramTrouble : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text, mode_t mode = 0755) {
    ASSERT_TRUE(write_file_atomic(dir_ / name, text, mode, false));
  }
  std::string of(const std::string& program) {
    return program_trouble(program, dir_.path(), {"PATH=" + dir_.path() + "/bin:/bin:/usr/bin"});
  }
  void says(const std::string& program, const std::string& words) {
    EXPECT_NE(of(program).find(words), std::string::npos) << of(program);
  }

  TempDir dir_;
};

TEST_F(ProgramTrouble, NothingIsSaidOfWhatCanBeExecuted) {
  file("run.sh", "#!/bin/sh\necho hi\n");
  file("spaced.sh", "#! /bin/sh -e\n");
  file("by-env", "#!/usr/bin/env sh\n");
  file("split", "#!/usr/bin/env -S sh -e\n");
  file("plain", "echo hi\n");
  for (const char* program :
       {"./run.sh", "./spaced.sh", "./by-env", "./split", "./plain", "sh", "true", "/bin/true"})
    EXPECT_EQ(of(program), "") << program;
}

TEST_F(ProgramTrouble, AnInterpreterWithWindowsLineEndingsIsNamed) {
  file("run.sh", "#!/bin/bash\r\necho hi\r\n");
  EXPECT_EQ(of("./run.sh"),
            "./run.sh: no such interpreter \"/bin/bash\\r\" (the file has Windows line endings); "
            "convert it with dos2unix");
  file("by-env.py", "#!/usr/bin/env sh\r\n");
  says("./by-env.py", "\"sh\\r\" (the file has Windows line endings)");
}

TEST_F(ProgramTrouble, TheInterpreterOfARemovedEnvironmentIsNamed) {
  file("train.py", "#!/opt/conda/envs/gone/bin/python\nprint(1)\n");
  says("./train.py", "no such interpreter \"/opt/conda/envs/gone/bin/python\"");
  says("./train.py", "`python train.py`");
  file("relative", "#!bin/python -u\n");
  says("./relative", "\"bin/python\"");
}

TEST_F(ProgramTrouble, WhatEnvLooksForIsLookedForToo) {
  file("a", "#!/usr/bin/env no-such-python\n");
  says("./a", "\"no-such-python\", which is not in the PATH");
  file("b", "#!/usr/bin/env sh -u\n");
  says("./b", "`env -S sh -u`");
  file("c", "#!/usr/bin/env -S A=1 B=2 no-such-python -u\n");
  says("./c", "\"no-such-python\"");
}

TEST_F(ProgramTrouble, AnInterpreterThatCannotBeExecutedIsNamed) {
  ASSERT_TRUE(make_dirs(dir_ / "folder", 0755));
  file("data", "no program", 0644);
  file("a", "#!" + dir_.path() + "/folder\n");
  file("b", "#!" + dir_.path() + "/data\n");
  for (const char* program : {"./a", "./b"}) says(program, "is not executable");
}

TEST_F(ProgramTrouble, AFileThatIsNotExecutableGetsBothWaysOut) {
  file("train.py", "print(1)\n", 0644);
  EXPECT_EQ(of("./train.py"),
            "./train.py is not executable; `chmod +x ./train.py`, or write `python train.py`");
  file("plain", "x", 0644);
  EXPECT_EQ(of("./plain"), "./plain is not executable; `chmod +x ./plain`");
  file("run.sh", "x", 0644);
  says("./run.sh", "`bash run.sh`");
}

TEST_F(ProgramTrouble, WhatIsNotThereIsNamedWithWhereItWasLookedFor) {
  EXPECT_EQ(of("nosuchcmd"), "command not found: nosuchcmd (not in the PATH you submitted with)");
  EXPECT_EQ(of("./nosuch.sh"), "no such file: ./nosuch.sh (in " + dir_.path() + ")");
  EXPECT_EQ(of("/no/such"), "no such file: /no/such");
  file("here", "#!/bin/sh\n");
  says("here", "write ./here");
  file("a-file", "");
  says("./a-file/x", "no such file");
}

TEST_F(ProgramTrouble, FoldersAndLinksThatLeadNowhereAreNamed) {
  ASSERT_TRUE(make_dirs(dir_ / "folder", 0755));
  says("./folder", "is a folder");
  ASSERT_EQ(::symlink("/no/such/target", (dir_ / "link").c_str()), 0);
  says("./link", "is a link to /no/such/target");
}

TEST_F(ProgramTrouble, OfSeveralInThePathOneThatWorksIsEnough) {
  ASSERT_TRUE(make_dirs(dir_ / "bin", 0755));
  file("bin/true", "not executable", 0644);
  EXPECT_EQ(of("true"), "");
  file("bin/mine", "#!/no/such/sh\n");
  says("mine", "\"/no/such/sh\"");
}

TEST_F(ProgramTrouble, ABinaryForAnotherSystemNamesItsLoader) {
  const Result<std::string> sh = read_file("/bin/sh", std::size_t{64} << 20);
  ASSERT_TRUE(sh);
  std::string text = *sh;
  const std::size_t at = text.find("/ld-");
  const std::size_t begin = text.rfind('\0', at) + 1;
  if (at == std::string::npos) GTEST_SKIP() << "sh is linked statically";
  text[begin + 1] = 'X';
  file("musl", text);
  says("./musl", "was built for another system: its loader \"/X");
}

TEST(InterpreterByName, IsKnownOfScripts) {
  EXPECT_EQ(interpreter_by_name("a/train.py"), "python");
  EXPECT_EQ(interpreter_by_name("run.sh"), "bash");
  EXPECT_EQ(interpreter_by_name("fit.R"), "Rscript");
  EXPECT_EQ(interpreter_by_name("train"), "");
}

}  // namespace
}  // namespace pergpu::os
