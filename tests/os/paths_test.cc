#include "os/process/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0);
  return st.st_mode & 07777;
}

class FindHome : public testing::Test {
 protected:
  FindHome() {
    sources_.machine = "machine1";
    sources_.home = dir_ / "user";
    sources_.var_tmp = dir_ / "var-tmp";
    sources_.uid = ::getuid();
    sources_.on_network = [this](const std::string& path) -> Result<bool> {
      return path.starts_with(dir_ / "nfs");
    };
  }
  std::string fallback() const { return dir_ / "var-tmp/pergpu-" + std::to_string(::getuid()); }

  TempDir dir_;
  HomeSources sources_;
};

TEST_F(FindHome, ExplicitIsMadePrivate) {
  sources_.pergpu_home = dir_ / "new/home/";
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home) << home.error().message;
  EXPECT_EQ(home->path, dir_ / "new/home");
  EXPECT_TRUE(home->is_explicit);
  EXPECT_EQ(mode_of(home->path), 0700u);
}

TEST_F(FindHome, ExplicitBelowTheUsersFolderMayBeginWithATilde) {
  sources_.pergpu_home = "~/named";
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home) << home.error().message;
  EXPECT_EQ(home->path, dir_ / "user/named");
  sources_.pergpu_home = "~otto/named";
  EXPECT_NE(find_home(sources_).error().message.find("only ~/ is expanded"), std::string::npos);
  sources_.pergpu_home = "~";
  sources_.home = "";
  EXPECT_NE(find_home(sources_).error().message.find("HOME isn't set to a folder"),
            std::string::npos);
}

TEST_F(FindHome, ThatIsNoTextIsRefused) {
  const std::string expected = "the home's path is not valid UTF-8: \"" + (dir_ / "h\\xff");
  sources_.pergpu_home = dir_ / "h\xff";
  EXPECT_EQ(find_home(sources_).error().message,
            expected + "\"; set PERGPU_HOME to another folder");
  EXPECT_FALSE(exists(dir_ / "h\xff"));
  sources_.pergpu_home = "";
  sources_.home = dir_ / "h\xff";
  EXPECT_TRUE(find_home(sources_).error().message.starts_with(expected));
}

TEST_F(FindHome, AnAllocationHasOneOfItsOwn) {
  const Result<Home> usual = find_home(sources_);
  sources_.slurm_job = "17";
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(usual && home) << home.error().message;
  EXPECT_EQ(home->path, usual->path + "/slurm-17");
  EXPECT_EQ(mode_of(home->path), 0700u);
  sources_.pergpu_home = dir_ / "named";
  EXPECT_EQ(find_home(sources_)->path, dir_ / "named");
}

TEST_F(FindHome, ThroughALinkIsTheSame) {
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home);
  ASSERT_EQ(::symlink("user", (dir_ / "link").c_str()), 0);
  sources_.home = dir_ / "link";
  EXPECT_EQ(find_home(sources_)->path, home->path);
  sources_.pergpu_home = dir_ / "link/.local/state/pergpu/machine1";
  EXPECT_EQ(find_home(sources_)->path, home->path);
}

TEST_F(FindHome, ExplicitOnANetworkIsRefused) {
  sources_.pergpu_home = dir_ / "nfs/home";
  const Result<Home> home = find_home(sources_);
  ASSERT_FALSE(home);
  EXPECT_NE(home.error().message.find("network"), std::string::npos);
  EXPECT_FALSE(exists(dir_ / "nfs"));
}

TEST_F(FindHome, WritableByOthersIsRefused) {
  sources_.pergpu_home = dir_ / "open";
  ASSERT_TRUE(make_dirs(dir_ / "open", 0720));
  EXPECT_FALSE(find_home(sources_));
  ASSERT_EQ(::chmod((dir_ / "open").c_str(), 0702), 0);
  EXPECT_FALSE(find_home(sources_));
}

TEST_F(FindHome, ReadableByOthersIsTightenedOnlyWhenEmpty) {
  sources_.pergpu_home = dir_ / "fresh";
  ASSERT_TRUE(make_dirs(dir_ / "fresh", 0755));
  ASSERT_TRUE(find_home(sources_));
  EXPECT_EQ(mode_of(dir_ / "fresh"), 0700u);

  sources_.pergpu_home = dir_ / "mine";
  ASSERT_TRUE(make_dirs(dir_ / "mine/letters", 0755));
  EXPECT_FALSE(find_home(sources_));
  EXPECT_EQ(mode_of(dir_ / "mine"), 0755u);
}

TEST_F(FindHome, SymlinkIsRefused) {
  ASSERT_TRUE(make_dirs(dir_ / "real", 0700));
  ASSERT_EQ(::symlink("real", (dir_ / "link").c_str()), 0);
  sources_.pergpu_home = dir_ / "link/";  // a slash at the end does not hide it
  const Result<Home> home = find_home(sources_);
  ASSERT_FALSE(home);
  EXPECT_NE(home.error().message.find("symlink"), std::string::npos);
}

TEST_F(FindHome, SomebodyElsesIsRefused) {
  sources_.pergpu_home = dir_ / "home";
  sources_.uid = ::getuid() + 1;
  const Result<Home> home = find_home(sources_);
  ASSERT_FALSE(home);
  EXPECT_NE(home.error().message.find("belongs to uid"), std::string::npos);
}

TEST_F(FindHome, StateFolderOfThisMachine) {
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home);
  EXPECT_EQ(home->path, dir_ / "user/.local/state/pergpu/machine1");
  EXPECT_FALSE(home->is_explicit);
  EXPECT_EQ(home->why_elsewhere, "");
  sources_.xdg_state_home = dir_ / "state";
  EXPECT_EQ(find_home(sources_)->path, dir_ / "state/pergpu/machine1");
  sources_.xdg_state_home = "relative/is/ignored";
  EXPECT_EQ(find_home(sources_)->path, home->path);
}

TEST_F(FindHome, NetworkHomeGoesToVarTmpAndSaysSo) {
  sources_.home = dir_ / "nfs/user";
  ASSERT_TRUE(make_dirs(sources_.var_tmp, 0755));
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home) << home.error().message;
  EXPECT_EQ(home->path, fallback());
  EXPECT_EQ(mode_of(home->path), 0700u);
  EXPECT_NE(home->why_elsewhere.find("network"), std::string::npos);
}

TEST_F(FindHome, UnusableHomeGoesToVarTmp) {
  ASSERT_TRUE(write_file_atomic(dir_ / "user", "a file", 0600, false));
  const Result<Home> home = find_home(sources_);
  ASSERT_TRUE(home) << home.error().message;
  EXPECT_EQ(home->path, fallback());
  EXPECT_NE(home->why_elsewhere, "");
  sources_.home = "";
  EXPECT_EQ(find_home(sources_)->path, fallback());
}

TEST_F(FindHome, TrapInVarTmpIsRefused) {
  sources_.home = dir_ / "nfs/user";
  ASSERT_TRUE(make_dirs(sources_.var_tmp, 0755));
  ASSERT_TRUE(make_dirs(dir_ / "trap", 0700));
  ASSERT_EQ(::symlink((dir_ / "trap").c_str(), fallback().c_str()), 0);
  EXPECT_FALSE(find_home(sources_));
}

/// Sets an environment variable for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

TEST(RunFolder, ExplicitHomeHasItsOwn) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  const Variable runtime("XDG_RUNTIME_DIR", dir.path());
  EXPECT_EQ(*run_folder({.path = dir.path(), .is_explicit = true, .why_elsewhere = ""}),
            dir / "run");
  EXPECT_EQ(mode_of(dir / "run"), 0700u);
  EXPECT_EQ(*run_folder({.path = dir.path(), .is_explicit = false, .why_elsewhere = ""}),
            dir / ("pergpu/" + name_hash(dir.path())));
  EXPECT_EQ(mode_of(dir / "pergpu"), 0700u);
}

TEST(RunFolder, TwoHomesShareNone) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  ASSERT_TRUE(make_dirs(dir / "a", 0700));
  ASSERT_TRUE(make_dirs(dir / "b", 0700));
  const Variable runtime("XDG_RUNTIME_DIR", dir.path());
  const auto folder_of = [&](const char* home) {
    return run_folder({.path = dir / home, .is_explicit = false, .why_elsewhere = ""});
  };
  const Result<std::string> a = folder_of("a");
  const Result<std::string> b = folder_of("b");
  ASSERT_TRUE(a);
  ASSERT_TRUE(b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(*folder_of("a"), *a);
}

TEST(RunFolder, ThatWasRememberedLastIsGiven) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  const Variable runtime("XDG_RUNTIME_DIR", dir.path());
  const auto folder = [&] {
    return *run_folder({.path = dir.path(), .is_explicit = false, .why_elsewhere = ""});
  };
  const std::string first = folder();
  EXPECT_EQ(*remembered_run_folder(dir.path()), first);
  ASSERT_TRUE(make_dirs(run_folder_in(dir.path()), 0700));
  ASSERT_TRUE(remember_run_folder(dir.path(), run_folder_in(dir.path())));
  EXPECT_EQ(folder(), run_folder_in(dir.path()));
}

TEST(RunFolder, OfAnExplicitHomeNeedsNoMemory) {
  const TempDir dir;
  ASSERT_TRUE(remember_run_folder(dir.path(), run_folder_in(dir.path())));
  EXPECT_FALSE(remembered_run_folder(dir.path()));
}

TEST(RunFolder, RuntimeFolderOfOthersIsNotUsed) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "runtime", 0777));
  const Variable runtime("XDG_RUNTIME_DIR", dir / "runtime");
  EXPECT_EQ(*run_folder({.path = dir.path(), .is_explicit = false, .why_elsewhere = ""}),
            dir / "run");
}

TEST(EnvironmentForHome, HasTheAbsoluteHomeAndNoMarkOfAnAttempt) {
  const Variable home("PERGPU_HOME", "relative/home");
  const Variable marker(kMarkerName, "/some/home/1.1");
  const Variable other("PERGPU_ATTEMPT", "1.1");
  const std::vector<std::string> env = environment_for_home("/absolute/home");
  EXPECT_EQ(value_in(env, "PERGPU_HOME"), "/absolute/home");
  EXPECT_EQ(value_in(env, kMarkerName), std::nullopt);
  EXPECT_EQ(value_in(env, "PERGPU_ATTEMPT"), "1.1");
}

TEST(EnvironmentForHome, AddsNoHomeWhereNoneIsSet) {
  const Variable home("PERGPU_HOME", "");
  EXPECT_EQ(value_in(environment_for_home("/absolute/home"), "PERGPU_HOME"), "")
      << "as if it weren't set";
  ::unsetenv("PERGPU_HOME");
  EXPECT_EQ(value_in(environment_for_home("/absolute/home"), "PERGPU_HOME"), std::nullopt);
}

TEST(FindProgram, BesideThisOne) {
  const std::string self = *own_executable();
  const Result<std::string> found = find_program(self.substr(self.rfind('/') + 1));
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, self);
}

TEST(FindProgram, MissingNamesThePlacesTried) {
  const Result<std::string> found = find_program("no-such-program");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::NotFound);
  EXPECT_NE(found.error().message.find("libexec/pergpu/no-such-program"), std::string::npos);
}

TEST(FindProgram, KeeperOverride) {
  const Variable keeper("PERGPU_KEEPER", "/bin/true");
  EXPECT_EQ(*find_program("pergpu-keeper"), "/bin/true");
  const Variable missing("PERGPU_KEEPER", "/no/such/keeper");
  EXPECT_FALSE(find_program("pergpu-keeper"));
}

TEST(MachineId, IsOneFolderName) {
  EXPECT_FALSE(machine_id().empty());
  EXPECT_EQ(machine_id().find('/'), std::string::npos);
}

}  // namespace
}  // namespace pergpu::os
