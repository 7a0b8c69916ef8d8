// Bytes that are not UTF-8 (file names, arguments) become U+FFFD: the record is for people.
#include "run/record.h"

#include <nlohmann/json.hpp>

namespace pergpu {

std::string to_json_text(const AttemptRecord& r) {
  using json = nlohmann::ordered_json;
  auto text_or_null = [](const std::string& s) { return s.empty() ? json(nullptr) : json(s); };
  json j{{"schema", 1},
         {"job", r.id.job.value},
         {"attempt", r.id.number},
         {"sweep", r.sweep},
         {"run", text_or_null(r.run)},
         {"step", r.step},
         {"state", r.state},
         {"argv", r.argv},
         {"cwd", r.cwd},
         {"lane", to_string(r.placement.lane)},
         {"gpus", r.placement.gpus},
         {"cpus", r.placement.cpus},
         {"starting_at", text_or_null(r.starting_at)},
         {"started_at", text_or_null(r.started_at)},
         {"ended_at", text_or_null(r.ended_at)}};
  if (r.duration_s) j["duration_s"] = *r.duration_s;
  if (r.outcome) {
    j["class"] = to_string(r.outcome->cls);
    j["exit"] = r.outcome->exit_code ? json(*r.outcome->exit_code) : json(nullptr);
    j["signal"] = r.outcome->signal ? json(*r.outcome->signal) : json(nullptr);
    j["reason"] = r.outcome->reason;
    j["peak_memory_bytes"] = r.outcome->peak_memory_bytes;
    j["cpu_s"] = static_cast<double>(r.outcome->cpu_ns) / 1e9;
  }
  j["git"] = r.git_commit.empty() ? json(nullptr)
                                  : json{{"commit", r.git_commit}, {"dirty", r.git_dirty}};
  json files = json::object();
  for (const auto& [path, hash] : r.files) files[path] = hash;
  j["files"] = std::move(files);
  json set = json::object();
  for (const auto& [name, value] : r.env_set) set[name] = value;
  j["environment"] = {{"set", std::move(set)}, {"inherited", r.env_names}};
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace pergpu
