// The unit of `coordinator enable`: what is written is read again (cli/care/user_unit.h).
#include "cli/care/user_unit.h"

#include <gtest/gtest.h>

namespace pergpu::cli {
namespace {

TEST(ProgramOfUnit, IsWhatWasQuoted) {
  for (const std::string path :
       {"/usr/bin/pergpu", "/home/alice/a b/pergpu", "/opt/100%h/$x/\"q\"\\pergpu", "/a/n\nl"}) {
    const std::string unit = "[Service]\nExecStart=" + unit_quoted(path, true) +
                             " coordinator run --foreground\nRestart=on-failure\n";
    EXPECT_EQ(program_of_unit(unit), path);
  }
}

TEST(ProgramOfUnit, AlsoWithoutQuotesOrThere) {
  EXPECT_EQ(program_of_unit("[Service]\nExecStart=/usr/bin/pergpu run\n"), "/usr/bin/pergpu");
  EXPECT_EQ(program_of_unit("[Service]\nExecStart="), "");
  EXPECT_EQ(program_of_unit(""), "");
}

}  // namespace
}  // namespace pergpu::cli
