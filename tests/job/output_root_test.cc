// Where results lie (job/output_root.h).
#include "job/output_root.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

TEST(OutputRoot, IsThreeFoldersUp) {
  EXPECT_EQ(output_root_of("/data/runs/sweep/01/train"), "/data/runs");
  EXPECT_EQ(output_root_of("/runs/sweep/.slurm/key"), "/runs");
  EXPECT_EQ(output_root_of("/sweep/01/train"), "/");
  EXPECT_EQ(output_root_of("/01/train"), "/");
}

}  // namespace
}  // namespace pergpu
