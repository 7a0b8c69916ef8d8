// Measures by their names: what a newer pergpu measures beside them is left out.
#include "store/present.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "job/json_depth.h"
#include "json_text.h"
#include "store/json_number.h"

namespace pergpu::store {

using Json = nlohmann::json;

std::string present_name(std::int32_t task) { return fmt::format("now.{}.json", task); }

std::string to_text(const std::vector<Present>& present) {
  Json list = Json::array();
  for (const Present& p : present) {
    Json measures = Json::object();
    for (const Measure m : kAllMeasures) {
      if (p.reading[m]) measures[std::string(to_string(m))] = *p.reading[m];
    }
    list.push_back({{"job", p.attempt.job.value},
                    {"attempt", p.attempt.number},
                    {"at", p.at_wall_ns},
                    {"status", p.status},
                    {"progress", p.progress},
                    {"throttle", p.reading.throttle},
                    {"measures", std::move(measures)}});
  }
  return json_text(Json{{"now", list}}) + "\n";
}

Result<std::vector<Present>> present_of(std::string_view text) {
  std::vector<Present> out;
  try {
    if (nests_deeper_than(text, kMostNestedJson)) throw std::invalid_argument("nested too deep");
    const Json all = Json::parse(text);
    for (const Json& j : all.at("now")) {
      Present p{
          .attempt = {{whole<std::int64_t>(j.at("job"))}, whole<std::int32_t>(j.at("attempt"))},
          .at_wall_ns = whole<std::int64_t>(j.at("at")),
          .status = j.at("status").get<std::string>(),
          .progress = j.at("progress").get<std::string>()};
      p.reading.throttle = whole<std::uint32_t>(j.at("throttle"));
      const Json& measures = j.at("measures");
      for (const Measure m : kAllMeasures) {
        const auto told = measures.find(std::string(to_string(m)));
        if (told != measures.end()) p.reading[m] = single(*told);
      }
      out.push_back(std::move(p));
    }
  } catch (const std::exception& error) {
    return Error{ErrorKind::Corrupt, 0, error.what()};
  }
  return out;
}

}  // namespace pergpu::store
