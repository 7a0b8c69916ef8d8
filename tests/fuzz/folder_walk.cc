// Folders that are walked while another user swaps the names in them (os/fs/folder_walk.h).
//
// An input is a list of operations: a byte says what is done, the next ones where.  A thread swaps
// folders, files, FIFOs and links as fast as it can meanwhile, as a neighbor who may write there.
// For root some links belong to another user and lead to a private folder: nothing there may be
// changed or read.
#include "os/fs/folder_walk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../os/take_lock.h"
#include "fuzz.h"
#include "os/fs/file.h"
#include "os/fs/folder_lock.h"
#include "os/fs/written_file.h"

namespace pergpu::fuzz {
namespace {

constexpr uid_t kOther = 61001;
constexpr int kMostOperations = 16;
constexpr int kMostLocks = 1;  // who finds one in use waits some milliseconds
constexpr int kLongestPath = 4;
/// More levels than a path can go up.
constexpr char kResults[] = "/1/2/3/4/5/6/results";
constexpr char kSecret[] = "secret";
/// Names in paths; the first kEntries also of entries.
constexpr std::array kNames = {"a",    "b",    "c",    "fresh", "link", "far",
                               "fifo", "zero", "mine", "loop",  ".",    ".."};
constexpr std::size_t kEntries = 10;
/// What is swapped with what.
constexpr std::array<std::pair<const char*, const char*>, 9> kSwaps = {{{"a", "link"},
                                                                        {"a/b", "far"},
                                                                        {"a/c", "zero"},
                                                                        {"fresh", "link"},
                                                                        {"c", "secret-link"},
                                                                        {"a", "b"},
                                                                        {"b", "mine"},
                                                                        {"a/c", "fifo"},
                                                                        {"fresh/a", "far"}}};

/// A results folder, a private one, and who swaps names in the first.
class World {
 public:
  World() {
    // In memory where that can be had: no disk is waited for.
    const bool has_shm = ::access("/dev/shm", W_OK | X_OK) == 0;
    const std::filesystem::path temp =
        has_shm ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    std::string pattern = temp / "pergpu-walk-XXXXXX";
    check(::mkdtemp(pattern.data()) != nullptr, "a temporary folder");
    root_ = std::filesystem::canonical(pattern).string();
    results_ = root_ + kResults;
    private_ = root_ + "/private";
    check(static_cast<bool>(os::make_dirs(private_ + "/sub", 0700)), "a private folder");
    for (const char* file : {"/config.json", "/sub/f"})
      check(static_cast<bool>(os::write_file_atomic(private_ + file, kSecret, 0600, false)),
            "private files");
    // What is changed there has another time.
    const std::array<timespec, 2> then = {
        {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}}};
    for (const char* path : {"/config.json", "/sub/f", "/sub", ""})
      check(::utimensat(AT_FDCWD, (private_ + path).c_str(), then.data(), 0) == 0, "their times");
    for (const auto& [a, b] : kSwaps) swaps_.emplace_back(at(a), at(b));
    reset();
    neighbor_ = std::thread([this] { swap_names(); });
  }
  ~World() {
    over_ = true;
    neighbor_.join();
    (void)os::remove_tree(root_);
  }

  const std::string& results() const { return results_; }
  std::string at(const std::string& name) const { return results_ + "/" + name; }

  void reset() {
    is_reset_ = true;
    const std::lock_guard lock(swapping_);
    is_reset_ = false;
    check(static_cast<bool>(os::remove_tree(root_ + "/1")), "results that can be removed");
    check(static_cast<bool>(os::make_dirs(at("a/b"), 0700)), "results");
    check(static_cast<bool>(os::make_dirs(at("b"), 0700)), "results");
    check(::chmod(results_.c_str(), 0777) == 0, "results for all");
    for (const char* file : {"c", "a/c", "b/c"})
      check(static_cast<bool>(os::write_file_atomic(at(file), "public", 0644, false)), "a result");
    link("a", "mine");
    link("loop", "loop");
    check(::mkfifo(at("fifo").c_str(), 0666) == 0, "a FIFO");
    if (::geteuid() != 0) return;  // the links would be the user's, and followed
    link_of_other("/dev/zero", "zero");
    link_of_other(private_, "link");
    link_of_other(private_ + "/sub", "far");
    link_of_other(private_ + "/sub/f", "secret-link");
  }

  void check_private() const {
    for (const auto& [path, mode] :
         {std::pair("", 040700), std::pair("/sub", 040700), std::pair("/config.json", 0100600),
          std::pair("/sub/f", 0100600)}) {
      struct stat st = {};
      check(::lstat((private_ + path).c_str(), &st) == 0, "what is private is there");
      check(static_cast<int>(st.st_mode) == mode, "what is private has its mode");
      check(st.st_mtim.tv_sec == 1, "what is private wasn't changed");
    }
  }

 private:
  void link(const std::string& target, const std::string& name) const {
    check(::symlink(target.c_str(), at(name).c_str()) == 0, "a link");
  }
  void link_of_other(const std::string& target, const std::string& name) const {
    link(target, name);
    check(::lchown(at(name).c_str(), kOther, kOther) == 0, "a link of another user");
  }

  void swap_names() {
    while (!over_) {
      while (is_reset_) std::this_thread::yield();
      const std::lock_guard lock(swapping_);
      for (const auto& [a, b] : swaps_) {
        for (int i = 0; i < 2; ++i)
          (void)::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
      }
    }
  }

  std::string root_, results_, private_;
  std::vector<std::pair<std::string, std::string>> swaps_;
  std::mutex swapping_;
  std::atomic<bool> is_reset_ = false;  // somebody waits for the lock
  std::atomic<bool> over_ = false;
  std::thread neighbor_;
};

/// What an input says is done.
class Operations {
 public:
  Operations(Input& input, const World& world) : input_(input), world_(world) {}

  void run() {
    for (int i = 0; i < kMostOperations && !input_.empty(); ++i) {
      const std::uint8_t what = input_.byte();
      if (what % 2 == 0) {
        in_folder(what / 2);
      } else {
        by_path(what / 2);
      }
    }
  }

 private:
  std::string name() { return kNames[input_.byte() % kEntries]; }
  std::string path() {
    std::string out = world_.at("");
    const int length = input_.byte() % (kLongestPath + 1);
    for (int i = 0; i < length; ++i)
      out += std::string(kNames[input_.byte() % kNames.size()]) + "/";
    if (input_.byte() % 8 != 0) out.pop_back();
    return out;
  }

  void in_folder(int what) {
    const Result<os::HeldFolder> folder =
        what % 3 == 0 ? os::HeldFolder::make(path(), 0777) : os::HeldFolder::open(path());
    if (!folder) return;
    const std::string entry = name();
    switch (what % 8) {
      case 0:
        (void)folder->write_new_file(entry, "new", 0666);
        break;
      case 1:
        (void)folder->write_file_atomic(entry, "written", 0666, false);
        break;
      case 2:
        (void)folder->rename(entry, name());
        break;
      case 3:
        (void)folder->remove_tree(entry);
        break;
      case 4:
        look(*folder);
        break;
      case 5:
        if (const Result<os::HeldFolder> below = folder->open_folder(entry); below)
          (void)below->write_file_atomic(name(), "below", 0666, false);
        break;
      case 6:
        check_text(os::read_written(*folder, entry, os::Writer::Job, 100));
        break;
      default:
        (void)folder->open_itself();
        break;
    }
  }

  void by_path(int what) {
    const std::string where = path();
    switch (what % 6) {
      case 0:
        (void)os::write_below(world_.results(), where, "walked", 0666, false);
        break;
      case 1:
        check_text(os::read_written(where, os::Writer::Keeper, 100));
        break;
      case 2:
        check_text(os::read_written_tail(where, os::Writer::Job, 100));
        break;
      case 3:
        if (const Result<os::HeldName> end = os::walk_through(where); end)
          (void)end->folder.write_file_atomic(end->name, "walked", 0666, false);
        break;
      case 4:
        if (++locks_ > kMostLocks) break;
        if (const Result<os::FolderLock> lock = os::take_lock(where, "me"); lock)
          (void)os::holder_of_folder(where);
        break;
      default:
        os::tidy_folder(where);
        break;
    }
  }

  static void look(const os::HeldFolder& folder) {
    const Result<std::vector<std::string>> names = folder.names();
    if (!names) return;
    check(std::is_sorted(names->begin(), names->end()), "names are sorted");
    for (const std::string& entry : *names) {
      check(entry.find('/') == entry.npos && entry != "f" && entry != "config.json",
            "no private folder is listed");
      (void)folder.look_at(entry);
    }
  }
  static void check_text(const Result<std::string>& text) {
    if (text) check(text->size() <= 100 && *text != kSecret, "what is read isn't private");
  }

  Input& input_;
  const World& world_;
  int locks_ = 0;
};

}  // namespace
}  // namespace pergpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  static fuzz::World world;
  fuzz::Input input(data, size);
  world.reset();
  const std::size_t open = os::list_dir("/proc/self/fd")->size();
  fuzz::Operations(input, world).run();
  world.check_private();
  fuzz::check(os::list_dir("/proc/self/fd")->size() == open, "no descriptor stays open");
  return 0;
}
