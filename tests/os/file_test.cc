#include "os/fs/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "os/fs/folder_walk.h"

namespace pergpu::os {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0);
  return st.st_mode & 07777;
}

TEST(ReadFile, WholeContentUpToTheLimit) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", "12345", 0600, false));
  EXPECT_EQ(*read_file(dir / "f", 5), "12345");
  const Result<std::string> over = read_file(dir / "f", 4);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::Invalid);
  EXPECT_NE(over.error().message.find(dir / "f"), std::string::npos);
}

// A killed process leaves its temporary files, and its pid may be ours.
TEST(WriteFile, LeftoversOfAnotherProcessDoNotHinderIt) {
  const TempDir dir;
  const Result<HeldFolder> folder = HeldFolder::open(dir.path());
  ASSERT_TRUE(folder);
  for (int count = 0; count < 1000; ++count) {
    const std::string left = ".f." + std::to_string(::getpid()) + "." + std::to_string(count);
    ASSERT_TRUE(folder->write_new_file(left + ".tmp", "", 0600));
  }
  EXPECT_TRUE(write_file_atomic(dir / "f", "12345", 0600, false));
  EXPECT_EQ(*read_file(dir / "f", 5), "12345");
}

TEST(ReadFile, ProcFilesOfUnknownSize) {
  const Result<std::string> text = read_file("/proc/self/status", 1u << 20);
  ASSERT_TRUE(text);
  EXPECT_GT(text->size(), 100u);
}

TEST(ReadFile, MissingAndFolderNameThePath) {
  const TempDir dir;
  EXPECT_EQ(read_file(dir / "no", 10).error().kind, ErrorKind::NotFound);
  EXPECT_NE(read_file(dir.path(), 10).error().message.find(dir.path()), std::string::npos);
}

TEST(WriteFileAtomic, ReplacesAndLeavesNoTemp) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", "old", 0600, true));
  ASSERT_TRUE(write_file_atomic(dir / "f", "new", 0600, true));
  EXPECT_EQ(*read_file(dir / "f", 10), "new");
  EXPECT_EQ(*list_dir(dir.path()), (std::vector<std::string>{"f"}));
}

TEST(WriteFileAtomic, ModeIsExactWhateverTheUmask) {
  const TempDir dir;
  const mode_t old = ::umask(077);
  const Result<void> open = write_file_atomic(dir / "open", "", 0664, false);
  ::umask(0);
  const Result<void> secret = write_file_atomic(dir / "secret", "", 0600, false);
  ::umask(old);
  ASSERT_TRUE(open);
  ASSERT_TRUE(secret);
  EXPECT_EQ(mode_of(dir / "open"), 0664u);
  EXPECT_EQ(mode_of(dir / "secret"), 0600u);
}

TEST(WriteFileAtomic, FailureLeavesTheOldContentAndNoTemp) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "f/busy", 0700));  // a folder cannot be replaced by a file
  EXPECT_FALSE(write_file_atomic(dir / "f", "new", 0600, false));
  EXPECT_EQ(*list_dir(dir.path()), (std::vector<std::string>{"f"}));
  EXPECT_EQ(write_file_atomic(dir / "none/f", "", 0600, false).error().kind, ErrorKind::NotFound);
}

TEST(WriteFileAtomic, NameOfTheGreatestLength) {
  const TempDir dir;
  const std::string name(255, 'n');
  ASSERT_TRUE(write_file_atomic(dir / name, "x", 0600, false));
  EXPECT_EQ(*read_file(dir / name, 1), "x");
}

TEST(WriteFileAtomic, SymlinkIsReplacedNotFollowed) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "target", "kept", 0600, false));
  ASSERT_EQ(::symlink("target", (dir / "link").c_str()), 0);
  ASSERT_TRUE(write_file_atomic(dir / "link", "new", 0600, false));
  EXPECT_EQ(*read_file(dir / "target", 10), "kept");
}

TEST(WriteNewFile, IsForAbsentFilesOnly) {
  const TempDir dir;
  const Result<HeldFolder> folder = HeldFolder::open(dir.path());
  ASSERT_TRUE(folder);
  ASSERT_TRUE(folder->write_new_file("f", "first", 0640));
  EXPECT_EQ(mode_of(dir / "f"), 0640u);
  EXPECT_EQ(folder->write_new_file("f", "second", 0640).error().os_errno, EEXIST);
  EXPECT_EQ(*read_file(dir / "f", 10), "first");
  ASSERT_EQ(::symlink("nowhere", (dir / "link").c_str()), 0);
  EXPECT_EQ(folder->write_new_file("link", "x", 0640).error().os_errno, EEXIST);
  EXPECT_FALSE(exists(dir / "nowhere"));
}

TEST(MakeDirs, ParentsTooAndAgain) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "a/b/c", 0750));
  ASSERT_TRUE(make_dirs(dir / "a/b/c", 0750));
  EXPECT_EQ(mode_of(dir / "a"), 0750u);
  EXPECT_EQ(mode_of(dir / "a/b/c"), 0750u);
}

TEST(MakeDirs, ModeIsExactAndSetGroupIdIsInherited) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "shared", 0775));
  ASSERT_EQ(::chmod((dir / "shared").c_str(), 02775), 0);
  const mode_t old = ::umask(077);
  const Result<void> made = make_dirs(dir / "shared/run", 0775);
  ::umask(old);
  ASSERT_TRUE(made);
  EXPECT_EQ(mode_of(dir / "shared/run"), 02775u);
}

TEST(MakeDirs, FileInTheWayIsNamed) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", "", 0600, false));
  const Result<void> on_it = make_dirs(dir / "f", 0700);
  ASSERT_FALSE(on_it);
  EXPECT_NE(on_it.error().message.find("a file with that name exists"), std::string::npos);
  EXPECT_FALSE(make_dirs(dir / "f/below", 0700));
}

TEST(FileIdentity, TellsAChangeAndAReplacement) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", "one", 0600, false));
  const FileIdentity first = *file_identity(dir / "f");
  EXPECT_EQ(first.size, 3u);
  EXPECT_EQ(*file_identity(dir / "f"), first);
  ASSERT_TRUE(write_file_atomic(dir / "g", "two", 0600, false));
  ASSERT_EQ(::rename((dir / "g").c_str(), (dir / "f").c_str()), 0);
  EXPECT_NE(*file_identity(dir / "f"), first);
  EXPECT_EQ(file_identity(dir / "no").error().kind, ErrorKind::NotFound);
}

TEST(Exists, TellsFilesFromFolders) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "f", "", 0600, false));
  ASSERT_EQ(::symlink("nowhere", (dir / "dangling").c_str()), 0);
  EXPECT_TRUE(exists(dir.path()) && is_directory(dir.path()) && !is_regular(dir.path()));
  EXPECT_TRUE(exists(dir / "f") && is_regular(dir / "f") && !is_directory(dir / "f"));
  EXPECT_FALSE(exists(dir / "dangling"));
}

TEST(RemoveTree, EverythingBelowButNothingBehindSymlinks) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "outside", 0700));
  ASSERT_TRUE(write_file_atomic(dir / "outside/kept", "x", 0600, false));
  ASSERT_TRUE(make_dirs(dir / "tree/a/b", 0700));
  ASSERT_TRUE(write_file_atomic(dir / "tree/a/f", "x", 0600, false));
  ASSERT_EQ(::symlink("../outside", (dir / "tree/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir / "tree/pipe").c_str(), 0600), 0);
  ASSERT_TRUE(remove_tree(dir / "tree"));
  EXPECT_FALSE(exists(dir / "tree"));
  EXPECT_TRUE(exists(dir / "outside/kept"));
}

TEST(RemoveTree, SymlinkItselfFileAndNothing) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "kept/sub", 0700));
  ASSERT_EQ(::symlink("kept", (dir / "link").c_str()), 0);
  ASSERT_TRUE(remove_tree(dir / "link"));
  EXPECT_TRUE(exists(dir / "kept/sub"));
  EXPECT_TRUE(remove_tree(dir / "never-there"));
}

TEST(RemoveTree, LeavesNoDescriptorBehind) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "tree/a/b/c/d/e", 0700));
  const std::size_t before = open_fds();
  ASSERT_TRUE(remove_tree(dir / "tree"));
  EXPECT_EQ(open_fds(), before);
}

TEST(NetworkFileSystem, KnownByItsNumber) {
  EXPECT_TRUE(is_network_filesystem(0x6969));
  EXPECT_TRUE(is_network_filesystem(0xFF534D42));
  EXPECT_TRUE(is_network_filesystem(0xFFFFFFFFFF534D42));  // sign-extended where f_type is signed
  EXPECT_FALSE(is_network_filesystem(0xEF53));             // ext4
  EXPECT_FALSE(is_network_filesystem(0x65735546));         // FUSE
}

TEST(NetworkFileSystem, AsksForTheNearestExistingParent) {
  const Result<bool> network = on_network_filesystem("/proc/not/there/yet");
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_FALSE(*network);
}

TEST(ParentOf, EveryShapeOfPath) {
  EXPECT_EQ(parent_of("/a/b"), "/a");
  EXPECT_EQ(parent_of("/a/b/"), "/a");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("a//b"), "a");
  EXPECT_EQ(parent_of(""), ".");
}

}  // namespace
}  // namespace pergpu::os
