// Texts that are JSON themselves (spec, submit, parameters) travel as strings: what comes out on
// the node is byte for byte what went in.
#include "store/handover.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "job/json_depth.h"
#include "json_text.h"
#include "store/event_json.h"
#include "store/json_number.h"

namespace pergpu::store {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

Json instant(Instant at) { return {at.wall_ns, at.boot_ns}; }

std::string line(const Json& j) { return json_text(j) + "\n"; }

std::string hex(const JobIdentity& identity) {
  std::string out;
  for (const std::uint8_t byte : identity) out += fmt::format("{:02x}", byte);
  return out;
}

JobIdentity identity_of(const std::string& text) {
  JobIdentity identity{};
  if (text.size() != 2 * identity.size()) throw std::invalid_argument("identity");
  for (std::size_t i = 0; i < identity.size(); ++i) {
    identity[i] = static_cast<std::uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return identity;
}

Json needs_json(const std::vector<HandedNeed>& needs) {
  Json out = Json::array();
  for (const HandedNeed& need : needs) out.push_back({{"job", need.job.value}, {"out", need.out}});
  return out;
}

std::vector<HandedNeed> needs_of(const Json& j) {
  std::vector<HandedNeed> out;
  for (const Json& need : j) {
    out.push_back({{whole<std::int64_t>(need.at("job"))}, need.at("out").get<std::string>()});
  }
  return out;
}

Json head(const Handover& h) {
  return {{"handover", kFormat},
          {"key", h.key},
          {"from", h.from},
          {"lanes", h.lanes},
          {"jobs_each", h.jobs_each},
          {"at", h.at_wall_ns},
          {"last_start_ms", h.last_start_ms},
          {"needs", needs_json(h.needs)},
          {"node", h.node},
          {"sweep",
           {{"id", h.sweep.id.value},
            {"root", h.sweep.root},
            {"name", h.sweep.name},
            {"spec", h.sweep.spec},
            {"submit", h.sweep.submit},
            {"at", instant(h.sweep.at)}}},
          {"runs", h.runs.size()},
          {"jobs", h.jobs.size()}};
}

Json body(const row::Run& r) {
  return {{"run", r.index}, {"folder", r.folder}, {"json", r.json}, {"texts", r.texts}};
}

Json body(const HandedJob& h) {
  return {{"job", h.job.id.value},
          {"run", h.job.run},
          {"step", h.job.step},
          {"step_name", h.job.step_name},
          {"identity", hex(h.job.identity)},
          {"at", instant(h.job.at)},
          {"task", h.task},
          {"state", event_body(h.state)},
          {"needs", needs_json(h.needs)}};
}

/// Reads line after line; what is wrong is thrown by the JSON library and caught in one place.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  Json next() {
    ++number_;
    if (text_.empty()) throw std::invalid_argument("unexpected end");
    const std::size_t end = text_.find('\n');
    const std::string_view line = text_.substr(0, end);
    text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
    if (nests_deeper_than(line, kMostNestedJson))
      throw std::invalid_argument("it is nested too deep");
    return Json::parse(line);
  }
  int number() const { return number_; }

 private:
  std::string_view text_;
  int number_ = 0;
};

void read_head(const Json& j, Handover& out) {
  if (whole<int>(j.at("handover")) != kFormat) throw std::invalid_argument("unknown format");
  j.at("key").get_to(out.key);
  j.at("from").get_to(out.from);
  out.lanes = whole<std::int32_t>(j.at("lanes"));
  out.jobs_each = whole<std::int32_t>(j.at("jobs_each"));
  out.at_wall_ns = whole<std::int64_t>(j.at("at"));
  if (j.contains("last_start_ms")) out.last_start_ms = whole<std::int64_t>(j.at("last_start_ms"));
  out.needs = needs_of(j.value("needs", Json::array()));
  out.node = j.value("node", std::string());
  const Json& sweep = j.at("sweep");
  out.sweep = {.id = {whole<std::int64_t>(sweep.at("id"))},
               .root = sweep.at("root").get<std::string>(),
               .name = sweep.at("name").get<std::string>(),
               .spec = sweep.at("spec").get<std::string>(),
               .submit = sweep.at("submit").get<std::string>(),
               .at = instant_of(sweep.at("at"))};
}

row::Run run_of(const Json& j, SweepId sweep) {
  return {.sweep = sweep,
          .index = whole<std::int32_t>(j.at("run")),
          .folder = j.at("folder").get<std::string>(),
          .json = j.at("json").get<std::string>(),
          .texts = j.at("texts").get<std::string>()};
}

HandedJob job_of(const Json& j, SweepId sweep) {
  HandedJob out{.job = {.id = {whole<std::int64_t>(j.at("job"))},
                        .sweep = sweep,
                        .run = whole<std::int32_t>(j.at("run")),
                        .step = whole<std::int16_t>(j.at("step")),
                        .step_name = j.at("step_name").get<std::string>(),
                        .identity = identity_of(j.at("identity").get<std::string>()),
                        .at = instant_of(j.at("at"))},
                .task = whole<std::int32_t>(j.at("task")),
                .needs = needs_of(j.at("needs"))};
  Result<JobEvent> state = event_of("folded", j.at("state").get<std::string>());
  if (!state) throw std::invalid_argument(state.error().message);
  out.state = std::get<event::Folded>(*std::move(state));
  return out;
}

}  // namespace

bool HandedJob::operator==(const HandedJob& other) const {
  return job.id == other.job.id && job.sweep == other.job.sweep && job.run == other.job.run &&
         job.step == other.job.step && job.step_name == other.job.step_name &&
         job.identity == other.job.identity && job.at == other.job.at && state == other.state &&
         task == other.task && needs == other.needs;
}

std::string to_text(const Handover& handover) {
  std::string out = line(head(handover));
  for (const row::Run& run : handover.runs) out += line(body(run));
  for (const HandedJob& job : handover.jobs) out += line(body(job));
  return out;
}

Result<Handover> handover_of(std::string_view text) {
  Lines lines(text);
  Handover out;
  try {
    const Json first = lines.next();
    read_head(first, out);
    const auto runs = whole<std::size_t>(first.at("runs"));
    const auto jobs = whole<std::size_t>(first.at("jobs"));
    while (out.runs.size() < runs) out.runs.push_back(run_of(lines.next(), out.sweep.id));
    while (out.jobs.size() < jobs) out.jobs.push_back(job_of(lines.next(), out.sweep.id));
  } catch (const std::exception& error) {
    return Error{ErrorKind::Corrupt, 0, fmt::format("line {}: {}", lines.number(), error.what())};
  }
  return out;
}

}  // namespace pergpu::store
