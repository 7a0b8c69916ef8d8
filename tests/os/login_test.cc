// What a logout ends, by the files of systemd (os/process/login.h).
#include "os/process/login.h"

#include "fixture.h"

namespace pergpu::os {
namespace {

std::optional<bool> ends(std::string_view main, const std::vector<std::string>& others = {},
                         std::string_view user = "alice") {
  return logout_ends_processes(logout_rules_in(main, others), user);
}

TEST(LogoutRules, WhatIsSetCounts) {
  EXPECT_EQ(ends("[Login]\nKillUserProcesses=yes\n"), true);
  EXPECT_EQ(ends("[Login]\n KillUserProcesses = no \n"), false);
  EXPECT_EQ(ends("KillUserProcesses=yes\nKillUserProcesses=perhaps\n"), true);
}

TEST(LogoutRules, WhereNothingIsSetTheCommentTellsWhatSystemdWasBuiltWith) {
  EXPECT_EQ(ends("[Login]\n#NAutoVTs=6\n#KillUserProcesses=no\n"), false);
  EXPECT_EQ(ends("[Login]\n# KillUserProcesses=yes\n"), true);
  EXPECT_EQ(ends("[Login]\n"), std::nullopt);
  EXPECT_EQ(ends(""), std::nullopt);
}

TEST(LogoutRules, ALaterFileCounts) {
  EXPECT_EQ(ends("KillUserProcesses=yes\n", {"KillUserProcesses=no\n"}), false);
  EXPECT_EQ(ends("#KillUserProcesses=no\n", {"[Login]\nKillUserProcesses=1\n"}), true);
}

TEST(LogoutRules, ListsOfUsersComeBeforeTheSetting) {
  const char* yes = "KillUserProcesses=yes\n";
  EXPECT_EQ(ends(yes, {}, "root"), false) << "spared unless the list is set";
  EXPECT_EQ(ends(yes, {"KillExcludeUsers=bob alice\n"}), false);
  EXPECT_EQ(ends(yes, {"KillExcludeUsers=bob\n"}, "root"), true);
  EXPECT_EQ(ends(yes, {"KillExcludeUsers=bob\nKillExcludeUsers=\n"}, "bob"), true);
  EXPECT_EQ(ends("KillUserProcesses=no\nKillOnlyUsers=alice\n"), true);
  EXPECT_EQ(ends("KillUserProcesses=yes\nKillOnlyUsers=bob\n"), false);
}

TEST(LogoutRules, DropInsAreReadByTheOrderOfTheirNames) {
  const TempDir dir;
  const auto put = [&](const std::string& path, const std::string& text) {
    ASSERT_TRUE(make_dirs(parent_of(dir / path), 0755));
    ASSERT_TRUE(write_file_atomic(dir / path, text, 0644, false));
  };
  put("usr/lib/systemd/logind.conf", "#KillUserProcesses=no\n");
  put("etc/systemd/logind.conf.d/20-kill.conf", "KillUserProcesses=yes\n");
  put("usr/lib/systemd/logind.conf.d/30-site.conf", "KillUserProcesses=no\n");
  put("etc/systemd/logind.conf.d/40.txt", "KillUserProcesses=no\n");
  EXPECT_EQ(logout_ends_processes(read_logout_rules(dir.path()), "alice"), false);
  put("etc/systemd/logind.conf.d/30-site.conf", "\n");  // in place of the lower folder's
  EXPECT_EQ(logout_ends_processes(read_logout_rules(dir.path()), "alice"), true);
  EXPECT_FALSE(lingers(dir.path(), "alice"));
  put("var/lib/systemd/linger/alice", "");
  EXPECT_TRUE(lingers(dir.path(), "alice"));
  EXPECT_FALSE(lingers(dir.path(), "../linger/alice"));
}

TEST(Keeping, IsReadOffTheControlGroup) {
  EXPECT_EQ(keeping_in("0::/user.slice/user-1000.slice/session-2.scope\n"), Keeping::Session);
  EXPECT_EQ(keeping_in("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n"),
            Keeping::UserManager);
  EXPECT_EQ(keeping_in("0::/system.slice/cron.service\n"), Keeping::System);
  EXPECT_EQ(keeping_in("9:memory:/user@1\n1:name=systemd:/user.slice/session-c2.scope\n"),
            Keeping::Session);
  EXPECT_EQ(keeping_in("0::/\n"), Keeping::Nobody);
  EXPECT_EQ(keeping_in(""), Keeping::Nobody);
}

}  // namespace
}  // namespace pergpu::os
