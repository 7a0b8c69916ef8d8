// What jobs that share a GPU have of it: thousandths of its time, and memory.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pergpu {

/// In thousandths, as shares are counted.
inline constexpr int kWholeGpu = 1000;

/// "0.25" of 250.
std::string share_text(int thousandths);

/// What one of them has.
struct GpuPart {
  int share = 0;              // thousandths; 0: it is free
  std::uint64_t bytes = 0;    // of memory, promised to it
  std::int64_t until_ns = 0;  // expected to be over then; 0: not known
  bool operator==(const GpuPart&) const = default;
};

/// All of one GPU; their numbers are LaneId::part.
class GpuParts {
 public:
  int taken() const { return taken_; }  // thousandths
  std::uint64_t promised() const { return bytes_; }
  int count() const { return count_; }
  bool any() const { return count_ > 0; }
  /// The lowest number that is free.
  int first_free() const;
  /// When all are expected to be over; 0: not known.
  std::int64_t free_at_ns() const;
  const GpuPart& of(int part) const;

  /// Gives a part, in the place of what was given by that number.  REQUIRES: share > 0.
  void give(int part, const GpuPart& given);
  /// Nothing happens where it is free.
  void take_back(int part);

 private:
  std::vector<GpuPart> parts_ = {};
  int taken_ = 0;
  std::uint64_t bytes_ = 0;
  int count_ = 0;
};

}  // namespace pergpu
