// A list in an object, so that members can be added beside it.
#include "store/end_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "job/json_depth.h"
#include "json_text.h"
#include "store/json_number.h"

namespace pergpu::store {

using Json = nlohmann::json;

std::string end_request_name(std::int32_t task) { return fmt::format("end.{}.json", task); }

std::string to_text(const EndRequests& requests) {
  Json list = Json::array();
  for (const EndRequest& r : requests.jobs) {
    list.push_back({{"job", r.job.value},
                    {"kill", r.kill},
                    {"unless_begun", r.unless_begun},
                    {"words", r.words}});
  }
  const Json whole = {{"end", list}, {"was_held", requests.was_held}};
  return json_text(whole) + "\n";
}

Result<EndRequests> end_requests_of(std::string_view text) {
  EndRequests out;
  try {
    if (nests_deeper_than(text, kMostNestedJson)) throw std::invalid_argument("nested too deep");
    const Json all = Json::parse(text);
    for (const Json& j : all.at("end")) {
      out.jobs.push_back({{whole<std::int64_t>(j.at("job"))},
                          j.at("kill").get<bool>(),
                          j.value("unless_begun", false),
                          j.at("words").get<std::string>()});
    }
    out.was_held = all.value("was_held", false);
  } catch (const std::exception& error) {
    return Error{ErrorKind::Corrupt, 0, error.what()};
  }
  return out;
}

}  // namespace pergpu::store
