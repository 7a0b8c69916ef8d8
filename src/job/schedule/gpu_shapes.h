// What jobs of a step with `gpus = "auto"` need, by their shape.  Pure.
//
// A job is described by its parameters.  Which of them matter is learned: those whose values show
// how much GPU memory jobs had (job/schedule/likeness.h).  Jobs that agree in all of these are of
// one shape, and are taken to need what others of that shape did.  Of a shape that was not seen,
// and where no parameter matters, a job is taken to need the most that any did: shape 0.
//
// Without a parameter that matters all are of shape 0; so they are where shapes need nearly the
// same, for then to know them is worth nothing.
//
// A bounded number of sets of parameters is remembered.  What is forgotten first matters least: of
// a shape that was seen often the job that needed least, so that the shape's need stays; where
// every shape was seen once or twice the one that was seen first, of those that were seen once
// while they are half of all: pairs are what distinguishes a parameter that matters from chance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "job/schedule/gpu_need.h"
#include "job/schedule/likeness.h"

namespace pergpu {

class GpuShapes {
 public:
  /// What was seen of jobs with the same parameters.
  struct Seen {
    std::vector<ParameterMark> parameters = {};
    GpuNeed need = {};
    bool operator==(const Seen&) const = default;
  };
  static constexpr std::size_t kMostSeen = 64;

  GpuShapes() = default;
  /// What was kept: all() and seen().
  GpuShapes(const GpuNeed& all, std::vector<Seen> seen);

  enum class News : std::uint8_t {
    None,    // it was known
    Seen,    // that there was such a job; no need has changed
    Needs,   // more is needed, or another part of the time
    Shapes,  // shape_of() has changed
  };
  News add(const Seen& one);
  /// Of all jobs that were ever seen; nothing of that is forgotten.
  const GpuNeed& all() const { return all_; }
  const std::vector<Seen>& seen() const { return seen_; }

  /// 0: what is known of all holds for it.
  GpuShape shape_of(const std::vector<ParameterMark>& parameters) const;
  /// Without shape 0.  What was not measured of a shape is that of all.
  const std::map<GpuShape, GpuNeed>& needs() const { return needs_; }

 private:
  GpuShape hash(const std::vector<ParameterMark>& parameters) const;
  void make_room();
  void sort_out();

  GpuNeed all_ = {};
  std::vector<Seen> seen_ = {};             // oldest first
  std::vector<std::uint32_t> matter_ = {};  // names
  std::map<GpuShape, GpuNeed> needs_ = {};
};

}  // namespace pergpu
