// The runs of a sweep as the coordinator keeps them, and which of them has which parameters.  A
// sweep may have a million: each is one piece of memory, and the index holds numbers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/sweep/sweep.h"

namespace pergpu {

class Run {
 public:
  Run(std::string_view folder, std::string_view params, std::string_view texts, bool is_listed);

  std::string_view folder() const { return std::string_view(words_).substr(0, json_at_); }
  /// As RunSpec has them.
  std::string_view json() const {
    return std::string_view(words_).substr(json_at_, texts_at_ - json_at_);
  }
  std::string_view texts() const { return std::string_view(words_).substr(texts_at_); }
  RunSpec spec() const { return {.json = std::string(json()), .texts = std::string(texts())}; }

  bool listed = true;  // still a row of the sweep's file

 private:
  std::uint32_t json_at_ = 0;
  std::uint32_t texts_at_ = 0;
  std::string words_ = {};  // folder, params, texts
};

/// The number of a run, by its canonical JSON.  `runs` is always the same table.
class RunIndex {
 public:
  /// Of several with the same parameters the first is found.  REQUIRES: `number` is in `runs`.
  void add(const std::vector<Run>& runs, std::int32_t number);
  std::optional<std::int32_t> find(const std::vector<Run>& runs, std::string_view params) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = -1;  // -1: empty
  };
  /// Where a run with these parameters is, or belongs.
  std::size_t place_of(const std::vector<Run>& runs, std::uint32_t hash,
                       std::string_view params) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two of them, at most three quarters in use
  std::size_t used_ = 0;
};

}  // namespace pergpu
