// One put and one get function for each event with members; Members wraps a parsed object so that a
// wrong type is an error with the member's name and an absent member is its default.
#include "store/event_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
    case Next::Kind::Hold:
      return "hold";
  }
  return "?";
}

void put_starting(Json& j, const event::Starting& e) {
  const Placement& p = e.placement;
  j["attempt"] = e.attempt;
  j["pool"] = pool_name(p.lane.pool);
  j["slot"] = p.lane.slot;
  put<std::int64_t>(j, "sweep", p.lane.sweep.value, 0);
  put(j, "gpus", p.gpus, {});
  put(j, "cpus", p.cpus, 1);
  put(j, "cpu_list", p.cpu_list, {});
  put<std::int64_t>(j, "keeper", e.keeper.value, 0);
}

void put_ended(Json& j, const event::Ended& e) {
  const Outcome& o = e.outcome;
  j["class"] = to_string(o.cls);
  if (o.exit_code) j["exit"] = *o.exit_code;
  if (o.signal) j["signal"] = *o.signal;
  put(j, "reason", o.reason);
  put<std::uint64_t>(j, "peak_memory_bytes", o.peak_memory_bytes, 0);
  put<std::int64_t>(j, "cpu_ns", o.cpu_ns, 0);
  j["next"] = next_name(e.next.kind);
  if (e.next.state != JobState::Done) j["state"] = to_string(e.next.state);
  put(j, "charged", e.next.charged, true);
  put<std::int64_t>(j, "delay_ns", e.next.delay_ns, 0);
  put(j, "next_reason", e.next.reason);
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
    const bool fits = j->is_number_unsigned() ? std::in_range<Int>(j->get<std::uint64_t>())
                                              : std::in_range<Int>(j->get<std::int64_t>());
    if (!fits) return fail(key, *j);
    out = j->is_number_unsigned() ? static_cast<Int>(j->get<std::uint64_t>())
                                  : static_cast<Int>(j->get<std::int64_t>());
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
      if (!item.is_number_integer()) return fail(key, *j);
      out.push_back(item.get<int>());
    }
  }
  /// A name that `parse` turns into an optional value.
  template <typename T, typename Parse>
  void get_name(const char* key, T& out, Parse parse) {
    const Json* j = find(key, &Json::is_string);
    if (j == nullptr) return;
    const std::optional<T> value = parse(j->get_ref<const std::string&>());
    if (!value) return fail(key, *j);
    out = *value;
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
      problem_ =
          fmt::format("{} = {}", key, value.dump(-1, ' ', true, Json::error_handler_t::replace));
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
  if (name == "hold") return Next::Kind::Hold;
  return std::nullopt;
}

event::Starting get_starting(Members& m) {
  event::Starting e;
  Placement& p = e.placement;
  m.get_int("attempt", e.attempt);
  m.get_name("pool", p.lane.pool, pool_of);
  m.get_int("slot", p.lane.slot);
  m.get_int("sweep", p.lane.sweep.value);
  m.get("gpus", p.gpus);
  m.get_int("cpus", p.cpus);
  m.get("cpu_list", p.cpu_list);
  m.get_int("keeper", e.keeper.value);
  return e;
}

event::Ended get_ended(Members& m) {
  event::Ended e;
  Outcome& o = e.outcome;
  m.get_name("class", o.cls, outcome_class_of);
  m.get_int("exit", o.exit_code);
  m.get_int("signal", o.signal);
  m.get("reason", o.reason);
  m.get_int("peak_memory_bytes", o.peak_memory_bytes);
  m.get_int("cpu_ns", o.cpu_ns);
  m.get_name("next", e.next.kind, next_of);
  m.get_name("state", e.next.state, job_state_of);
  m.get("charged", e.next.charged);
  m.get_int("delay_ns", e.next.delay_ns);
  m.get("next_reason", e.next.reason);
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
  if (kind == "requeued") return get_reason<event::Requeued>(m);
  if (kind == "held") return get_reason<event::Held>(m);
  if (kind == "cancelled") return get_reason<event::Cancelled>(m);
  if (kind == "skipped") return get_reason<event::Skipped>(m);
  if (kind == "starting") return get_starting(m);
  if (kind == "ended") return get_ended(m);
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
    return e;
  }
  return std::nullopt;
}

}  // namespace

std::string event_body(const JobEvent& event) {
  Json j = Json::object();
  std::visit(Overloaded{[](const event::Submitted&) {},
                        [&](const event::Requeued& e) { put(j, "reason", e.reason); },
                        [&](const event::Held& e) { put(j, "reason", e.reason); },
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
                        },
                        [&](const event::Ended& e) { put_ended(j, e); }},
             event);
  // Reasons may quote paths, which are bytes: what is no UTF-8 is replaced, not refused.
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<JobEvent> event_of(std::string_view kind, std::string_view body) {
  const auto corrupt = [&](const std::string& why) {
    return Error{ErrorKind::Corrupt, 0, fmt::format("event `{}`: {}", kind, why)};
  };
  const Json j = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return corrupt("its body is no JSON object");
  Members members(j);
  std::optional<JobEvent> event = get_event(kind, members);
  if (!event) return corrupt("unknown kind");
  if (!members.problem().empty()) return corrupt("cannot be: " + members.problem());
  return *std::move(event);
}

}  // namespace pergpu::store
