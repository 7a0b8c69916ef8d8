// Shared memory: what there is of it, who has it, and how long it stays.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

/// One memory, however many processes have it.
struct Segment {
  std::string name = {};  // "data-0af3…"
  std::string kind = {};  // "data"
  std::string key = {};   // as it was asked for; "": the coordinator does not know it
  std::uint64_t bytes = 0;
  std::int64_t made_at = 0;             // wall clock in nanoseconds; 0: not known
  std::int64_t processes = 0;           // of this user, without the coordinator
  std::vector<std::int64_t> jobs = {};  // of this home, that these belong to; ascending
  bool held = false;                    // by the coordinator
  bool keep = false;
  std::vector<std::pair<std::int64_t, std::string>> sweeps = {};  // it is held for, id and name
};

/// A table of them and their sum; "" when there are none.
std::string segments_text(const std::vector<Segment>& segments, std::int64_t now_ns,
                          const Style& style);
/// One in a line: "tokens: 1.2 GiB, 3m old, 8 processes (jobs 17, 18), until its sweep is over".
std::string segment_line(const Segment& segment, std::int64_t now_ns);
/// "2 segments, 1.3 GiB"
std::string sum_of(const std::vector<Segment>& segments);
/// docs/schema/common.json, `segment`
nlohmann::json segment_json(const Segment& segment);
Segment segment_in(const nlohmann::json& object);
nlohmann::json segments_json(const std::vector<Segment>& segments);

}  // namespace pergpu::view
