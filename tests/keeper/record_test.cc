// Power cuts and the keeper's record: it is never synced, so any sector may be of any time.  What
// is read afterwards must be something that was written, and after a new boot it must be nothing.
#include "keeper/record.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

constexpr std::size_t kSectorBytes = 512;
constexpr char kBoot[] = "5f0c-boot";

std::string text_of(const Held& held) { return encode(held); }

/// What a keeper writes in its life: starts, ends and forgets attempts, two at most at once.
class Life {
 public:
  Life(const std::string& path, std::mt19937& random)
      : path_(path), record_(path, kBoot), random_(random) {}

  void step() {
    const AttemptId id{{std::uniform_int_distribution<std::int64_t>(1, 3)(random_)}, 1};
    Held held;
    switch (std::uniform_int_distribution<>(0, 2)(random_)) {
      case 0:
        held.started = Started{.id = id, .pid = ++number_, .start_ticks = 7};
        break;
      case 1:
        held.started = Started{.id = id, .pid = number_, .start_ticks = 7};
        held.exited = Exited{.id = id, .exit_code = ++number_ % 100};
        held.exited->missing_output.assign(static_cast<std::size_t>(number_ % 700), 'x');
        break;
      default:
        record_.remove(id);
        images_.push_back(slurp(path_));
        return;
    }
    record_.put(id, held);
    images_.push_back(slurp(path_));
    for (const Held& written : read_record(path_, kBoot)) written_.insert(text_of(written));
  }

  /// The file as a power cut may leave it: each sector as it was at any time, or never written.
  std::string after_power_cut() {
    std::string out(images_.back().size(), '\0');
    for (std::size_t at = 0; at < out.size(); at += kSectorBytes) {
      const std::string& image =
          images_[std::uniform_int_distribution<std::size_t>(0, images_.size() - 1)(random_)];
      if (at < image.size()) out.replace(at, kSectorBytes, image, at, kSectorBytes);
    }
    const auto length = std::uniform_int_distribution<std::size_t>(0, out.size())(random_);
    if (length % 4 == 0) out.resize(length);
    return out;
  }

  const std::set<std::string>& written() const { return written_; }

 private:
  std::string path_;
  RecordFile record_;
  std::mt19937& random_;
  std::int32_t number_ = 0;
  std::vector<std::string> images_;
  std::set<std::string> written_;
};

TEST(RecordFile, PowerCutsInventNothing) {
  std::mt19937 random(11);
  int found = 0;
  for (int life = 0; life < 10; ++life) {
    const TempFolder folder;
    Life one(folder.path() + "/k1.rec", random);
    for (int step = 0; step < 12; ++step) {
      one.step();
      const std::string left = folder.path() + "/left.rec";
      for (int cut = 0; cut < 5; ++cut) {
        spill(left, one.after_power_cut());
        for (const Held& held : read_record(left, kBoot)) {
          EXPECT_EQ(one.written().count(text_of(held)), 1u);
          ++found;
        }
        EXPECT_TRUE(read_record(left, "the next boot").empty());
      }
    }
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace pergpu::keeper::rig
