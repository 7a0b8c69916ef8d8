// Whose a handover is, and who decides for a sweep: files that several machines write.
#include "slurm/handover_owner.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "os/fs/file.h"

namespace pergpu {
namespace {

class HandoverOwner : public ::testing::Test {
 protected:
  HandoverOwner() { EXPECT_NE(::mkdtemp(folder.data()), nullptr); }
  ~HandoverOwner() override { EXPECT_TRUE(os::remove_tree(folder)); }

  std::string folder = ::testing::TempDir() + "owner.XXXXXX";
};

TEST_F(HandoverOwner, IsReadAsItWasWritten) {
  Result<std::optional<Owner>> read = owner_of(folder);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, std::nullopt) << "sbatch was not asked yet";
  for (const Owner& owner : {Owner{"login1:/x", false}, Owner{"login2:/a b", true}}) {
    ASSERT_TRUE(os::write_file_atomic(folder + "/" + kOwner, to_text(owner), 0644, false));
    read = owner_of(folder);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, owner);
  }
}

TEST_F(HandoverOwner, WhoClaimsASweepKeepsOthersFromHandingOver) {
  const std::string root = folder + "/sweep/.slurm";
  EXPECT_EQ(*claimant_of(root), "");
  EXPECT_TRUE(check_claim(root, "login1:/x")) << "nobody has claimed it";
  ASSERT_TRUE(claim(root, "login1:/x", 022));
  EXPECT_TRUE(check_claim(root, "login1:/x"));
  ASSERT_TRUE(claim(root, "login2:/x", 022));
  EXPECT_EQ(*claimant_of(root), "login2:/x");
  const Result<void> others = check_claim(root, "login1:/x");
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().kind, ErrorKind::Busy);
  EXPECT_EQ(others.error().message, "login2:/x");
}

TEST_F(HandoverOwner, WhatCannotBeReadIsNotTakenForUnclaimed) {
  ASSERT_TRUE(os::make_dirs(folder + "/" + kOwner, 0755));  // no file
  EXPECT_FALSE(owner_of(folder));
  EXPECT_FALSE(claimant_of(folder));
  const Result<void> checked = check_claim(folder, "login1:/x");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::Unavailable);
}

}  // namespace
}  // namespace pergpu
