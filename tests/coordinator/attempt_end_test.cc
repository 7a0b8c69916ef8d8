// A record that nobody else closes any more.
#include "coordinator/attempt_end.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "os/fs/file.h"

namespace pergpu {
namespace {

TEST(CloseRecord, GivesItTheModeOfItsSweepWhateverItHas) {
  std::string root = ::testing::TempDir() + "end.XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const std::string folder = root + "/sweep/00/train";
  ASSERT_TRUE(os::make_dirs(folder, 0755));
  const std::string path = folder + "/attempt.json";
  AttemptRecord record{.id = {{17}, 2}};
  record.state = "running";
  for (const mode_t before : {0600u, 0666u}) {
    ASSERT_TRUE(os::write_file_atomic(path, to_json_text(record), before, false));
    AttemptRecord end{.id = record.id};
    end.state = "lost";
    close_record(folder, end, 0640);
    struct stat st = {};
    ASSERT_EQ(::stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0640u);
    const Result<std::string> text = os::read_file(path, 1u << 20);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("\"state\": \"lost\""), std::string::npos) << *text;
  }
  EXPECT_TRUE(os::remove_tree(root));
}

}  // namespace
}  // namespace pergpu
