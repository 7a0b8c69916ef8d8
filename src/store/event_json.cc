// One put and one get function for each event with members; Members wraps a parsed object so that a
// wrong type is an error with the member's name and an absent member is its default.
#include "store/event_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "job/json_depth.h"
#include "json_text.h"
#include "store/json_number.h"

namespace pergpu::store {
namespace {

using Json = nlohmann::json;

// ---- writing -------------------------------------------------------------------------------

template <typename T>
void put(Json& j, const char* key, const T& value, const T& otherwise) {
  if (value != otherwise) j[key] = value;
}
void put(Json& j, const char* key, const std::string& value) {
  if (!value.empty()) j[key] = value;
}

// What a reason began with when an event did not name the cause of a hold.
constexpr std::string_view kHeldByBreaker = "held by the breaker: ";

const char* pool_name(LaneId::Pool pool) {
  switch (pool) {
    case LaneId::Pool::Gpu:
      return "gpu";
    case LaneId::Pool::Cpu:
      return "cpu";
    case LaneId::Pool::Sweep:
      return "sweep";
  }
  return "?";
}

const char* next_name(Next::Kind kind) {
  switch (kind) {
    case Next::Kind::Final:
      return "final";
    case Next::Kind::Again:
      return "again";
  }
  return "?";
}

void put_placement(Json& j, const Placement& p) {
  j["pool"] = pool_name(p.lane.pool);
  j["slot"] = p.lane.slot;
  put(j, "part", p.lane.part, 0);
  put<std::int64_t>(j, "sweep", p.lane.sweep.value, 0);
  put(j, "share", p.share, 0);
  put<std::uint64_t>(j, "promise", p.promise_bytes, 0);
  put(j, "mps", p.mps, false);
  put(j, "gpus", p.gpus, {});
  put(j, "slots", p.slots, {});
  put(j, "port", p.port, 0);
  put(j, "cpus", p.cpus, 1);
  put(j, "cpu_list", p.cpu_list, {});
  put(j, "node", p.node, {});
}

void put_starting(Json& j, const event::Starting& e) {
  j["attempt"] = e.attempt;
  put_placement(j, e.placement);
  put<std::int64_t>(j, "keeper", e.keeper.value, 0);
}

/// A measure is [mean, most].
Json usage_json(const UsageSummary& u) {
  Json j = Json::object();
  j["readings"] = u.readings;
  put<std::uint32_t>(j, "throttle", u.throttle, 0);
  for (const Measure m : kAllMeasures) {
    if (u[m]) j[std::string(to_string(m))] = {u[m]->mean, u[m]->most};
  }
  if (u.read_bytes) j["read_bytes"] = *u.read_bytes;
  if (u.written_bytes) j["written_bytes"] = *u.written_bytes;
  return j;
}

void put_outcome(Json& j, const Outcome& o) {
  j["class"] = to_string(o.cls);
  if (o.exit_code) j["exit"] = *o.exit_code;
  if (o.signal) j["signal"] = *o.signal;
  put(j, "reason", o.reason);
  put(j, "left_running", o.left_running);
  put(j, "mistake", o.mistake);
  put<std::uint64_t>(j, "peak_memory_bytes", o.peak_memory_bytes, 0);
  put<std::int64_t>(j, "cpu_ns", o.cpu_ns, 0);
  if (o.usage) j["usage"] = usage_json(*o.usage);
}

void put_ended(Json& j, const event::Ended& e) {
  put_outcome(j, e.outcome);
  j["next"] = next_name(e.next.kind);
  if (e.next.state != JobState::Done) j["state"] = to_string(e.next.state);
  put(j, "charged", e.next.charged, true);
  put<std::int64_t>(j, "delay_ns", e.next.delay_ns, 0);
  put(j, "next_reason", e.next.reason);
  put(j, "more_memory", e.next.more_memory, false);
  put(j, "more_gpu_memory", e.next.more_gpu_memory, false);
}

void put_instant(Json& j, const char* key, Instant at) {
  if (at != Instant{}) j[key] = {at.wall_ns, at.boot_ns};
}

Json attempt_json(const Attempt& a) {
  Json j = Json::object();
  j["attempt"] = a.number;
  put_placement(j, a.placement);
  put<std::int64_t>(j, "keeper", a.keeper.value, 0);
  put(j, "pid", a.pid, 0);
  put<std::uint64_t>(j, "start_ticks", a.start_ticks, 0);
  put_instant(j, "starting_at", a.starting_at);
  put_instant(j, "started_at", a.started_at);
  put_instant(j, "ended_at", a.ended_at);
  if (a.stop) j["stop"] = to_string(*a.stop);
  put(j, "stop_reason", a.stop_reason);
  put_instant(j, "stop_at", a.stop_at);
  put(j, "stop_at_once", a.stop_at_once, false);
  if (a.outcome) put_outcome(j["outcome"] = Json::object(), *a.outcome);
  return j;
}

void put_cause(Json& j, const char* key, HoldCause cause) {
  if (cause != HoldCause::Other) j[key] = to_string(cause);
}

void put_folded(Json& j, const event::Folded& e) {
  j["state"] = to_string(e.state);
  put<std::int16_t>(j, "attempts", e.attempts, 0);
  put<std::int16_t>(j, "retries_used", e.retries_used, 0);
  put<std::int16_t>(j, "moves", e.moves, 0);
  put<std::int8_t>(j, "memory_growths", e.memory_growths, 0);
  put<std::int8_t>(j, "gpu_memory_growths", e.gpu_memory_growths, 0);
  put_instant(j, "queued_at", e.queued_at);
  put<std::int64_t>(j, "not_before_ns", e.not_before_wall_ns, 0);
  put(j, "reason", e.reason);
  put_cause(j, "hold_cause", e.hold_cause);
  put(j, "repeat_skipped", e.repeat_skipped, false);
  if (!e.last.empty()) j["last"] = attempt_json(e.last.front());
}

// ---- reading -------------------------------------------------------------------------------

class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  /// Empty when all members made sense.
  const std::string& problem() const { return problem_; }

  void get(const char* key, std::string& out) {
    if (const Json* j = find(key, &Json::is_string)) out = j->get_ref<const std::string&>();
  }
  void get(const char* key, bool& out) {
    if (const Json* j = find(key, &Json::is_boolean)) out = j->get<bool>();
  }
  template <typename Int>
  void get_int(const char* key, Int& out) {
    const Json* j = find(key, &Json::is_number_integer);
    if (j == nullptr) return;
    if (!is_whole<Int>(*j)) return fail(key, *j);
    out = whole<Int>(*j);
  }
  void get_int(const char* key, std::optional<int>& out) {
    if (!object_.contains(key)) return;
    int value = 0;
    get_int(key, value);
    out = value;
  }
  void get(const char* key, std::vector<std::string>& out) {
    const Json* j = find(key, &Json::is_array);
    if (j == nullptr) return;
    for (const Json& item : *j) {
      if (!item.is_string()) return fail(key, *j);
      out.push_back(item.get<std::string>());
    }
  }
  void get(const char* key, std::vector<int>& out) {
    const Json* j = find(key, &Json::is_array);
    if (j == nullptr) return;
    for (const Json& item : *j) {
      if (!is_whole<int>(item)) return fail(key, *j);
      out.push_back(whole<int>(item));
    }
  }
  void get(const char* key, std::optional<UsageSummary::Extent>& out) {
    const Json* j = find(key, &Json::is_array);
    if (j == nullptr) return;
    const bool fits = j->size() == 2 && is_single((*j)[0]) && is_single((*j)[1]);
    if (!fits) return fail(key, *j);
    out = {.mean = single((*j)[0]), .most = single((*j)[1])};
  }
  void get_int(const char* key, std::optional<std::uint64_t>& out) {
    if (object_.contains(key)) get_int(key, out.emplace());
  }
  void get(const char* key, Instant& out) {
    const Json* j = find(key, &Json::is_array);
    if (j == nullptr) return;
    const bool fits =
        j->size() == 2 && is_whole<std::int64_t>((*j)[0]) && is_whole<std::int64_t>((*j)[1]);
    if (!fits) return fail(key, *j);
    out = {.wall_ns = whole<std::int64_t>((*j)[0]), .boot_ns = whole<std::int64_t>((*j)[1])};
  }
  /// Reads an object within; false: there is none.
  template <typename Read>
  bool get_object(const char* key, Read read) {
    const Json* j = find(key, &Json::is_object);
    if (j == nullptr) return false;
    Members inner(*j);
    read(inner);
    if (problem_.empty() && !inner.problem_.empty())
      problem_ = fmt::format("{}.{}", key, inner.problem_);
    return true;
  }
  /// A name that `parse` turns into an optional value.
  template <typename T, typename Parse>
  bool get_name(const char* key, T& out, Parse parse) {
    const Json* j = find(key, &Json::is_string);
    if (j == nullptr) return false;
    const std::optional<T> value = parse(j->get_ref<const std::string&>());
    if (!value) {
      fail(key, *j);
      return false;
    }
    out = *value;
    return true;
  }

 private:
  const Json* find(const char* key, bool (Json::*is_type)() const noexcept) {
    const auto member = object_.find(key);
    if (member == object_.end()) return nullptr;
    if (!((*member).*is_type)()) {
      fail(key, *member);
      return nullptr;
    }
    return &*member;
  }
  void fail(const char* key, const Json& value) {
    if (problem_.empty()) {
      problem_ = fmt::format("{} = {}", key, json_text(value, true));
    }
  }

  const Json& object_;
  std::string problem_;
};

std::optional<LaneId::Pool> pool_of(std::string_view name) {
  if (name == "gpu") return LaneId::Pool::Gpu;
  if (name == "cpu") return LaneId::Pool::Cpu;
  if (name == "sweep") return LaneId::Pool::Sweep;
  return std::nullopt;
}

std::optional<Next::Kind> next_of(std::string_view name) {
  if (name == "final") return Next::Kind::Final;
  if (name == "again") return Next::Kind::Again;
  return std::nullopt;
}

void get_placement(Members& m, Placement& p) {
  m.get_name("pool", p.lane.pool, pool_of);
  m.get_int("slot", p.lane.slot);
  m.get_int("part", p.lane.part);
  m.get_int("sweep", p.lane.sweep.value);
  m.get_int("share", p.share);
  m.get_int("promise", p.promise_bytes);
  m.get("mps", p.mps);
  m.get("gpus", p.gpus);
  m.get("slots", p.slots);
  m.get_int("port", p.port);
  m.get_int("cpus", p.cpus);
  m.get("cpu_list", p.cpu_list);
  m.get("node", p.node);
}

event::Starting get_starting(Members& m) {
  event::Starting e;
  m.get_int("attempt", e.attempt);
  get_placement(m, e.placement);
  m.get_int("keeper", e.keeper.value);
  return e;
}

void get_usage(Members& m, UsageSummary& u) {
  m.get_int("readings", u.readings);
  m.get_int("throttle", u.throttle);
  for (const Measure measure : kAllMeasures) {
    m.get(to_string(measure).data(), u.extents[static_cast<std::size_t>(measure)]);
  }
  m.get_int("read_bytes", u.read_bytes);
  m.get_int("written_bytes", u.written_bytes);
}

void get_outcome(Members& m, Outcome& o) {
  m.get_name("class", o.cls, outcome_class_of);
  m.get_int("exit", o.exit_code);
  m.get_int("signal", o.signal);
  m.get("reason", o.reason);
  m.get("left_running", o.left_running);
  m.get("mistake", o.mistake);
  m.get_int("peak_memory_bytes", o.peak_memory_bytes);
  m.get_int("cpu_ns", o.cpu_ns);
  m.get_object("usage", [&](Members& usage) { get_usage(usage, o.usage.emplace()); });
}

event::Ended get_ended(Members& m) {
  event::Ended e;
  get_outcome(m, e.outcome);
  m.get_name("next", e.next.kind, next_of);
  m.get_name("state", e.next.state, job_state_of);
  m.get("charged", e.next.charged);
  m.get_int("delay_ns", e.next.delay_ns);
  m.get("next_reason", e.next.reason);
  m.get("more_memory", e.next.more_memory);
  m.get("more_gpu_memory", e.next.more_gpu_memory);
  return e;
}

Attempt get_attempt(Members& m) {
  Attempt a;
  m.get_int("attempt", a.number);
  get_placement(m, a.placement);
  m.get_int("keeper", a.keeper.value);
  m.get_int("pid", a.pid);
  m.get_int("start_ticks", a.start_ticks);
  m.get("starting_at", a.starting_at);
  m.get("started_at", a.started_at);
  m.get("ended_at", a.ended_at);
  StopCause stop = StopCause::Cancel;
  if (m.get_name("stop", stop, stop_cause_of)) a.stop = stop;
  m.get("stop_reason", a.stop_reason);
  m.get("stop_at", a.stop_at);
  m.get("stop_at_once", a.stop_at_once);
  Outcome outcome;
  if (m.get_object("outcome", [&](Members& o) { get_outcome(o, outcome); })) a.outcome = outcome;
  return a;
}

void get_cause(Members& m, const char* key, const std::string& reason, HoldCause& cause) {
  if (m.get_name(key, cause, hold_cause_of)) return;
  if (reason.starts_with(kHeldByBreaker)) cause = HoldCause::Breaker;
}

event::Folded get_folded(Members& m) {
  event::Folded e;
  m.get_name("state", e.state, job_state_of);
  m.get_int("attempts", e.attempts);
  m.get_int("retries_used", e.retries_used);
  m.get_int("moves", e.moves);
  m.get_int("memory_growths", e.memory_growths);
  m.get_int("gpu_memory_growths", e.gpu_memory_growths);
  m.get("queued_at", e.queued_at);
  m.get_int("not_before_ns", e.not_before_wall_ns);
  m.get("reason", e.reason);
  if (e.state == JobState::Held) get_cause(m, "hold_cause", e.reason, e.hold_cause);
  m.get("repeat_skipped", e.repeat_skipped);
  m.get_object("last", [&](Members& last) { e.last.push_back(get_attempt(last)); });
  return e;
}

template <typename E>
E get_reason(Members& m) {
  E e;
  m.get("reason", e.reason);
  return e;
}

std::optional<JobEvent> get_event(std::string_view kind, Members& m) {
  if (kind == "submitted") return event::Submitted{};
  if (kind == "requeued") {
    event::Requeued e = get_reason<event::Requeued>(m);
    m.get("keeps_retries", e.keeps_retries);
    return e;
  }
  if (kind == "cancelled") return get_reason<event::Cancelled>(m);
  if (kind == "skipped") return get_reason<event::Skipped>(m);
  if (kind == "starting") return get_starting(m);
  if (kind == "ended") return get_ended(m);
  if (kind == "folded") return get_folded(m);
  if (kind == "held") {
    event::Held e = get_reason<event::Held>(m);
    get_cause(m, "cause", e.reason, e.cause);
    return e;
  }
  if (kind == "started") {
    event::Started e;
    m.get_int("pid", e.pid);
    m.get_int("start_ticks", e.start_ticks);
    return e;
  }
  if (kind == "stopping") {
    event::Stopping e;
    m.get_name("cause", e.cause, stop_cause_of);
    m.get("reason", e.reason);
    m.get("at_once", e.at_once);
    return e;
  }
  return std::nullopt;
}

}  // namespace

std::string event_body(const JobEvent& event) {
  Json j = Json::object();
  std::visit(Overloaded{[](const event::Submitted&) {},
                        [&](const event::Requeued& e) {
                          put(j, "reason", e.reason);
                          put(j, "keeps_retries", e.keeps_retries, false);
                        },
                        [&](const event::Held& e) {
                          put(j, "reason", e.reason);
                          put_cause(j, "cause", e.cause);
                        },
                        [&](const event::Cancelled& e) { put(j, "reason", e.reason); },
                        [&](const event::Skipped& e) { put(j, "reason", e.reason); },
                        [&](const event::Starting& e) { put_starting(j, e); },
                        [&](const event::Started& e) {
                          j["pid"] = e.pid;
                          j["start_ticks"] = e.start_ticks;
                        },
                        [&](const event::Stopping& e) {
                          j["cause"] = to_string(e.cause);
                          put(j, "reason", e.reason);
                          put(j, "at_once", e.at_once, false);
                        },
                        [&](const event::Ended& e) { put_ended(j, e); },
                        [&](const event::Folded& e) { put_folded(j, e); }},
             event);
  // Reasons may quote paths, which are bytes: what is no UTF-8 is replaced, not refused.
  return json_text(j);
}

Result<JobEvent> event_of(std::string_view kind, std::string_view body) {
  const auto corrupt = [&](const std::string& why) {
    return Error{ErrorKind::Corrupt, 0, fmt::format("event `{}`: {}", kind, why)};
  };
  if (nests_deeper_than(body, kMostNestedJson)) return corrupt("its body is nested too deep");
  const Json j = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return corrupt("its body isn't a JSON object");
  Members members(j);
  std::optional<JobEvent> event = get_event(kind, members);
  if (!event) return corrupt("unknown kind");
  if (!members.problem().empty()) return corrupt("invalid: " + members.problem());
  return *std::move(event);
}

}  // namespace pergpu::store
