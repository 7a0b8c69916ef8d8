// Fields remembers the first field that is wrong, so that reading goes straight on.
#include "api/request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "job/json_depth.h"
#include "job/names.h"
#include "spec/runs/run_table.h"
#include "spec/sweep/wire.h"

namespace pergpu {
namespace {

using nlohmann::json;
using Op = Request::Op;

/// Hello has no name: its line is {"hello":1,…}.
constexpr Op kNamedOps[] = {Op::Submit,  Op::DryRun,  Op::Plan,  Op::Ps,        Op::Show,
                            Op::Why,     Op::Wait,    Op::Watch, Op::Cancel,    Op::Hold,
                            Op::Release, Op::Retry,   Op::Set,   Op::Clean,     Op::Moving,
                            Op::Moved,   Op::Cleaned, Op::Gpus,  Op::Interrupt, Op::Status,
                            Op::Stop,    Op::Backup,  Op::Usage, Op::Complete};

constexpr std::int64_t kMostExpectedMs = std::int64_t{100} * 365 * 86'400'000;  // 100 years
constexpr std::int64_t kMostOn = 10'000;
constexpr std::int64_t kMostAgeS = std::int64_t{100} * 365 * 86'400;  // 100 years

class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  void get(const char* key, bool& to) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(key, "true or false");
    to = value->get<bool>();
  }
  void get(const char* key, std::int64_t& to) {
    const json* value = find(key);
    if (value == nullptr) return;
    const bool fits = value->is_number_unsigned()
                          ? std::in_range<std::int64_t>(value->get<std::uint64_t>())
                          : value->is_number_integer();
    if (!fits) return fail(key, "a whole number");
    to = value->get<std::int64_t>();
  }
  void get(const char* key, std::optional<std::int64_t>& to) {
    if (find(key) != nullptr) get(key, to.emplace());
  }
  void get(const char* key, std::string& to) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(key, "a string");
    to = value->get<std::string>();
  }
  void get(const char* key, std::vector<std::string>& to) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return fail(key, "a list of strings");
    for (const json& item : *value) {
      if (!item.is_string()) return fail(key, "a list of strings");
      to.push_back(item.get<std::string>());
    }
  }
  /// Numbers by name, each from `least` to `most`.
  void get(const char* key, std::map<std::string, std::int64_t>& to, std::int64_t least,
           std::int64_t most) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return fail(key, "an object of whole numbers");
    for (const auto& [name, number] : value->items()) {
      const bool fits = number.is_number_integer() &&
                        !(number.is_number_unsigned() &&
                          !std::in_range<std::int64_t>(number.get<std::uint64_t>()));
      const std::int64_t one = fits ? number.get<std::int64_t>() : least - 1;
      if (one < least || one > most) {
        return fail(key, fmt::format("an object of whole numbers from {} to {}", least, most));
      }
      to[name] = one;
    }
  }
  bool has(const char* key) const { return find(key) != nullptr; }
  /// Null after a failure.
  const json* must_get_object(const char* key) {
    const json* value = find(key);
    if (value != nullptr && value->is_object()) return value;
    fail(key, "an object");
    return nullptr;
  }
  void fail(const char* key, std::string_view expected) {
    if (wrong_.empty()) wrong_ = fmt::format("`{}` must be {}", key, expected);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const json& object_;
  std::string wrong_;
};

Result<void> read_submit(Fields& fields, Request& request) {
  const json* sweep = fields.must_get_object("sweep");
  const json* context = fields.must_get_object("context");
  std::int64_t runs = -1;
  fields.get("runs", runs);
  if (runs < 0 || std::cmp_greater(runs, kMaxRuns))
    fields.fail("runs", fmt::format("a number of runs, at most {}", kMaxRuns));
  if (!fields.wrong().empty()) return malformed_request(fields.wrong());
  Result<SweepSpec> spec = sweep_from_wire(sweep->dump());
  if (!spec) return std::move(spec).error();
  request.sweep = *std::move(spec);
  request.context = context->get<SubmitContext>();
  request.runs = static_cast<std::size_t>(runs);
  return {};
}

Result<void> read_settings(Fields& fields, Request& request) {
  std::vector<std::string> words;
  fields.get("set", words);
  if (!fields.wrong().empty()) return malformed_request(fields.wrong());
  Result<Settings> settings = settings_of(words);
  if (!settings) return std::move(settings).error();
  request.set = *settings;
  return {};
}

void read_usage(Fields& fields, Request& request) {
  fields.get("job", request.job);
  if (request.job < 1) fields.fail("job", "the number of a job");
  fields.get("attempt", request.attempt);
  if (request.attempt < 0 || !std::in_range<std::int32_t>(request.attempt)) {
    fields.fail("attempt", "the number of an attempt");
  }
  fields.get("step", request.step_s);
  if (request.step_s < 0 || request.step_s > 1'000'000) fields.fail("step", "seconds");
  std::string from;
  fields.get("from", from);
  request.from_wall_ns = from.empty() ? 0 : from_rfc3339(from);
  if (!from.empty() && request.from_wall_ns == 0) {
    fields.fail("from", "a time like 2026-11-21T13:00:00Z");
  }
}

}  // namespace

Error malformed_request(std::string_view why) {
  return Error{ErrorKind::Invalid, 0, fmt::format("malformed request: {}", why)};
}

std::string_view to_string(Request::Op op) {
  switch (op) {
    case Op::Hello:
      return "hello";
    case Op::Submit:
      return "submit";
    case Op::DryRun:
      return "dry_run";
    case Op::Plan:
      return "plan";
    case Op::Ps:
      return "ps";
    case Op::Show:
      return "show";
    case Op::Why:
      return "why";
    case Op::Wait:
      return "wait";
    case Op::Watch:
      return "watch";
    case Op::Cancel:
      return "cancel";
    case Op::Hold:
      return "hold";
    case Op::Release:
      return "release";
    case Op::Retry:
      return "retry";
    case Op::Set:
      return "set";
    case Op::Clean:
      return "clean";
    case Op::Moving:
      return "moving";
    case Op::Moved:
      return "moved";
    case Op::Cleaned:
      return "cleaned";
    case Op::Interrupt:
      return "interrupt";
    case Op::Gpus:
      return "gpus";
    case Op::Usage:
      return "usage";
    case Op::Status:
      return "status";
    case Op::Stop:
      return "stop";
    case Op::Backup:
      return "backup";
    case Op::Complete:
      return "complete";
  }
  return "?";
}

Result<Request> request_of(std::string_view line) {
  if (nests_deeper_than(line, kMostNestedJson))
    return malformed_request(fmt::format("nested more than {} levels deep", kMostNestedJson));
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object())
    return Error{ErrorKind::Invalid, 0, "a request must be one JSON object on a line"};
  Request request;
  if (object.contains("hello")) return request;

  Fields fields(object);
  std::string name;
  fields.get("op", name);
  const std::optional<Op> op = enumerator_of(name, kNamedOps);
  if (!fields.wrong().empty()) return malformed_request(fields.wrong());
  if (!op) return Error{ErrorKind::Invalid, 0, fmt::format("unknown request `{}`", name)};
  request.op = *op;
  if (*op == Op::Plan) {
    fields.get("expect", request.expect, 1, kMostExpectedMs);
    std::int64_t on = 0;
    fields.get("on", on);
    if (on < 0 || on > kMostOn) fields.fail("on", fmt::format("a number from 0 to {}", kMostOn));
    if (!fields.wrong().empty()) return malformed_request(fields.wrong());
    request.on = static_cast<int>(on);
    request.has_sweep = fields.has("sweep");
  }
  if (*op == Op::Submit || *op == Op::DryRun || request.has_sweep) {
    Result<void> read = read_submit(fields, request);
    if (!read) return std::move(read).error();
    return request;
  }
  fields.get("sel", request.selectors);
  fields.get("sweep_id", request.sweep_id);
  std::int64_t level = request.level;
  fields.get("level", level);
  if (level < 1 || level > 3) fields.fail("level", "1, 2 or 3");
  request.level = static_cast<int>(level);
  fields.get("most", request.most);
  if (request.most < 0) fields.fail("most", "a number of jobs");
  fields.get("without_runs", request.without_runs);
  fields.get("without_jobs", request.without_jobs);
  fields.get("grows", request.grows);
  if (request.grows && !request.sweep_id)
    fields.fail("sweep_id", "the number of the sweep to add to");
  fields.get("all", request.all);
  fields.get("failed", request.failed);
  fields.get("kill", request.kill);
  fields.get("wait", request.waits);
  fields.get("replaced", request.replaced);
  fields.get("queued", request.queued);
  fields.get("older", request.older);
  fields.get("file", request.file);
  fields.get("release", request.release);
  if (*op == Op::Set) {
    if (Result<void> read = read_settings(fields, request); !read) return std::move(read).error();
  }
  if (*op == Op::Clean) {
    fields.get("older_s", request.clean.older_s);
    if (request.clean.older_s < 0 || request.clean.older_s > kMostAgeS) {
      fields.fail("older_s", "seconds");
    }
    fields.get("results", request.clean.results);
    fields.get("take", request.clean.take);
  }
  if (*op == Op::Usage) read_usage(fields, request);
  if (*op == Op::Backup && !request.file.starts_with('/')) fields.fail("file", "an absolute path");
  const bool is_of_a_sweep =
      *op == Op::Interrupt || *op == Op::Moving || *op == Op::Moved || *op == Op::Cleaned;
  if (is_of_a_sweep && !request.sweep_id) fields.fail("sweep_id", "a whole number");
  if (!fields.wrong().empty()) return malformed_request(fields.wrong());
  return request;
}

}  // namespace pergpu
