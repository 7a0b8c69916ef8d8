// A snapshot is not kept among the events: it makes all of them useless, and may be large.
#include "serve/topic.h"

#include <utility>

#include "json_text.h"

namespace pergpu::serve {

using nlohmann::json;

namespace {

std::int64_t id_of(const json& job) {
  const auto id = job.is_object() ? job.find("id") : job.end();
  return job.is_object() && id != job.end() && id->is_number_integer() ? id->get<std::int64_t>()
                                                                       : 0;
}

}  // namespace

void Topic::take(const json& event) {
  const auto kind = event.find("event");
  if (kind == event.end() || !kind->is_string()) return;
  const std::string name = kind->get<std::string>();
  if (name == "snapshot") return replace(event);
  if (!known_) return;
  json data = event;
  data.erase("event");
  if (name == "job") {
    const auto job = event.find("job");
    if (job == event.end() || id_of(*job) == 0) return;
    jobs_[id_of(*job)] = *job;
  } else if (name == "changes") {
    put_jobs(event);
    put(event, "sweeps");
    put(event, "counts");
  } else if (name == "devices") {
    for (const auto& [key, value] : data.items()) rest_[key] = value;
  } else if (name == "sweep") {
    put(event, "sweep");
  } else if (name == "lanes") {
    put(event, "lanes");
  } else if (name == "remaining") {
    if (rest_["sweep"].is_object()) {
      rest_["sweep"]["remaining_s"] = event.value("remaining_s", json());
    }
  } else if (name != "end") {
    return;
  }
  add(name_ + "." + name, data);
}

void Topic::replace(const json& event) {
  rest_ = event;
  rest_.erase("event");
  rest_.erase("all");
  rest_.erase("jobs");
  jobs_.clear();
  put_jobs(event);
  known_ = true;
  trouble_.clear();
  events_.clear();
  bytes_ = 0;
  ++newest_;
}

void Topic::put_jobs(const json& event) {
  for (const json& job : event.value("jobs", json::array())) {
    if (id_of(job) != 0) jobs_[id_of(job)] = job;
  }
  for (const json& id : event.value("gone", json::array())) {
    if (id.is_number_integer()) jobs_.erase(id.get<std::int64_t>());
  }
}

void Topic::put(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found != event.end()) rest_[key] = *found;
}

void Topic::gap(const std::string& why) {
  trouble_ = why;
  add("gap", {{"topic", name_}, {"why", why}});
}

void Topic::add(const std::string& kind, const json& data) {
  events_.push_back({.number = ++newest_, .name = kind, .data = json_text(data)});
  bytes_ += events_.back().data.size();
  while (events_.size() > kMostEvents || (bytes_ > kMostBytes && events_.size() > 1)) {
    bytes_ -= events_.front().data.size();
    events_.pop_front();
  }
}

std::optional<std::vector<const Topic::Event*>> Topic::since(std::uint64_t number) const {
  if (number > newest_) return std::nullopt;
  if (number == newest_) return std::vector<const Event*>{};
  if (events_.empty() || number + 1 < events_.front().number) return std::nullopt;
  std::vector<const Event*> out;
  for (auto at = events_.begin() + static_cast<std::ptrdiff_t>(number + 1 - events_.front().number);
       at != events_.end(); ++at) {
    out.push_back(&*at);
  }
  return out;
}

Topic::Event Topic::snapshot() const {
  json data = rest_;
  json& jobs = data["jobs"] = json::array();
  for (const auto& [id, job] : jobs_) jobs.push_back(job);
  return {.number = newest_, .name = name_ + ".snapshot", .data = json_text(data)};
}

const json* Topic::job(std::int64_t id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

}  // namespace pergpu::serve
