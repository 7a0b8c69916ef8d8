// Times are milliseconds, sizes bytes, enumerations their names.  A field that has its default is
// left out: a sweep of one step is a short line, and defaults that change later do so for old
// stores too only where no value was written.
#include "spec/sweep/wire.h"

#include <fmt/core.h>

#include <climits>
#include <nlohmann/json.hpp>
#include <utility>

#include "job/growth.h"
#include "job/json_depth.h"
#include "json_text.h"
#include "spec/text/json_members.h"
#include "spec/text/source_text.h"

namespace pergpu {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// 250 years: nanoseconds of it fit into 64 bits.
constexpr std::int64_t kMostMilliseconds = std::int64_t{250} * 365 * 86'400'000;
/// A step's number has 16 bits.
constexpr std::size_t kMostSteps = 10'000;
constexpr int kLastSignal = 64;

std::string_view name_of(Need::Scope scope) {
  switch (scope) {
    case Need::Scope::SameRun:
      return "same-run";
    case Need::Scope::All:
      return "all";
    case Need::Scope::Ended:
      return "ended";
  }
  return "same-run";
}

OrderedJson pairs_to_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  OrderedJson out = OrderedJson::array();
  for (const auto& [name, value] : pairs) out.push_back(OrderedJson::array({name, value}));
  return out;
}

OrderedJson retries_to_json(const RetryPolicy& r) {
  OrderedJson out = {{"max", r.max}};
  for (OutcomeClass cls : r.on) out["on"].push_back(std::string(to_string(cls)));
  if (r.delay != RetryPolicy().delay) out["delay_ms"] = r.delay.count();
  return out;
}

OrderedJson slurm_to_json(const SlurmOptions& s) {
  const SlurmOptions defaults;
  OrderedJson out = OrderedJson::object();
  const auto put = [&](const char* name, const auto& value, const auto& otherwise) {
    if (value != otherwise) out[name] = value;
  };
  put("partition", s.partition, defaults.partition);
  put("account", s.account, defaults.account);
  put("qos", s.qos, defaults.qos);
  put("constraint", s.constraint, defaults.constraint);
  if (s.time) out["time_ms"] = s.time->count();
  put("jobs_per_allocation", s.jobs_per_allocation, defaults.jobs_per_allocation);
  put("lanes", s.lanes, defaults.lanes);
  put("extra", s.extra, defaults.extra);
  return out;
}

OrderedJson step_to_json(const StepSpec& s) {
  const StepSpec defaults;
  OrderedJson out;
  auto put = [&](const char* key, const auto& value, const auto& normal) {
    if (!(value == normal)) out[key] = value;
  };
  auto put_ms = [&](const char* key, std::chrono::milliseconds value,
                    std::chrono::milliseconds normal) {
    if (value != normal) out[key] = value.count();
  };
  out["name"] = s.name;
  put("once", s.once, defaults.once);
  put("command", s.command, defaults.command);
  put("shell", s.shell, defaults.shell);
  for (const Need& need : s.needs)
    out["needs"].push_back({{"step", need.step}, {"scope", std::string(name_of(need.scope))}});
  put("gpus", s.gpus, defaults.gpus);
  put("gpu_share", s.gpu_share, defaults.gpu_share);
  put("gpu_auto", s.gpu_auto, defaults.gpu_auto);
  put("gpu", s.gpu, defaults.gpu);
  if (s.sharing != Sharing::Time) out["sharing"] = to_string(s.sharing);
  if (s.outsiders != Outsiders::Avoid) out["outsiders"] = to_string(s.outsiders);
  if (s.cpus) out["cpus"] = *s.cpus;
  if (s.memory_bytes) out["memory_bytes"] = *s.memory_bytes;
  if (s.gpu_memory_bytes) out["gpu_memory_bytes"] = *s.gpu_memory_bytes;
  put("overcommit", s.overcommit, defaults.overcommit);
  if (s.timeout) out["timeout_ms"] = s.timeout->count();
  if (s.idle_timeout) out["idle_timeout_ms"] = s.idle_timeout->count();
  if (s.stall) out["stall_ms"] = s.stall->count();
  if (s.signal)
    out["signal"] = {{"number", s.signal->number}, {"ahead_ms", s.signal->ahead.count()}};
  put_ms("grace_ms", s.grace, defaults.grace);
  if (s.retries != defaults.retries) out["retries"] = retries_to_json(s.retries);
  if (s.grow != defaults.grow)
    out["grow"] = {{"memory", s.grow.memory}, {"gpu_memory", s.grow.gpu_memory}};
  put("rerun", s.rerun, defaults.rerun);
  put("breaker", s.breaker, defaults.breaker);
  for (const FailureRule& rule : s.failures)
    out["failures"].push_back({{"match", rule.match}, {"class", std::string(to_string(rule.cls))}});
  if (s.max_parallel) out["max_parallel"] = *s.max_parallel;
  put("uses", s.uses, defaults.uses);
  if (s.max_starting) out["max_starting"] = *s.max_starting;
  put_ms("ready_ms", s.ready, defaults.ready);
  put("priority", s.priority, defaults.priority);
  put("weight", s.weight, defaults.weight);
  put("expect", s.expect, defaults.expect);
  if (!s.env.empty()) out["env"] = pairs_to_json(s.env);
  if (s.env_pass) out["env_pass"] = *s.env_pass;
  put("cwd", s.cwd, defaults.cwd);
  if (s.gpu_env == GpuEnv::Index) out["gpu_env"] = "index";
  put("snapshot", s.snapshot, defaults.snapshot);
  put("copy", s.copy, defaults.copy);
  put("outputs", s.outputs, defaults.outputs);
  put("metrics", s.metrics, defaults.metrics);
  put("fake_duration", s.fake.duration, defaults.fake.duration);
  put("fake_exit", s.fake.exit, defaults.fake.exit);
  if (s.slurm != defaults.slurm) out["slurm"] = slurm_to_json(s.slurm);
  return out;
}

OrderedJson notify_to_json(const NotifySpec& n) {
  const NotifySpec defaults;
  OrderedJson out = {{"on", OrderedJson::array()}};
  if (n.on_failure) out["on"].push_back("failure");
  if (n.on_hold) out["on"].push_back("hold");
  if (n.on_end) out["on"].push_back("end");
  if (!n.command.empty()) out["command"] = n.command;
  if (!n.webhook.empty()) out["webhook"] = n.webhook;
  if (!n.ntfy.empty()) out["ntfy"] = n.ntfy;
  if (!n.slack.empty()) out["slack"] = n.slack;
  if (!n.token.empty()) out["token"] = n.token;
  if (n.timeout != defaults.timeout) out["timeout_ms"] = n.timeout.count();
  return out;
}

/// Reads fields out of one object; the first that has the wrong type is remembered.
class Fields {
 public:
  Fields(const OrderedJson& object, std::string& wrong) : object_(object), wrong_(wrong) {}

  void get(const char* key, std::string& to) {
    if (const OrderedJson* v = find(key))
      v->is_string() ? void(to = v->get<std::string>()) : fail(key);
  }
  void get(const char* key, bool& to) {
    if (const OrderedJson* v = find(key)) v->is_boolean() ? void(to = v->get<bool>()) : fail(key);
  }
  void get(const char* key, int& to) {
    if (const OrderedJson* v = find(key))
      to = static_cast<int>(whole(key, *v, std::int64_t{INT_MAX}));
  }
  void get(const char* key, std::chrono::milliseconds& to) {
    if (const OrderedJson* v = find(key))
      to = std::chrono::milliseconds(whole(key, *v, kMostMilliseconds));
  }
  void get(const char* key, std::uint64_t& to) {
    if (const OrderedJson* v = find(key))
      v->is_number_unsigned() ? void(to = v->get<std::uint64_t>()) : fail(key);
  }
  void get(const char* key, double& to) {
    if (const OrderedJson* v = find(key)) v->is_number() ? void(to = v->get<double>()) : fail(key);
  }
  void get(const char* key, std::vector<std::string>& to) {
    const OrderedJson* v = find(key);
    if (v == nullptr) return;
    if (!v->is_array()) return fail(key);
    to.clear();
    for (const OrderedJson& item : *v) {
      if (!item.is_string()) return fail(key);
      to.push_back(item.get<std::string>());
    }
  }
  void get(const char* key, std::vector<std::pair<std::string, std::string>>& to) {
    each(key, [&](const OrderedJson& item) {
      if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_string())
        return fail(key);
      to.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
    });
  }
  template <typename T>
  void get(const char* key, std::optional<T>& to) {
    if (find(key) == nullptr) return;
    T value{};
    get(key, value);
    to = std::move(value);
  }
  template <typename F>
  void each(const char* key, F&& f) {
    const OrderedJson* v = find(key);
    if (v == nullptr) return;
    if (!v->is_array()) return fail(key);
    for (const OrderedJson& item : *v) f(item);
  }
  void fail(const char* key) {
    if (wrong_.empty()) wrong_ = key;
  }
  /// A whole number from -most to most; else 0 and a failure.
  std::int64_t whole(const char* key, const OrderedJson& v, std::int64_t most) {
    const bool fits = v.is_number_unsigned()
                          ? std::cmp_less_equal(v.get<std::uint64_t>(), most)
                          : v.is_number_integer() && v.get<std::int64_t>() >= -most &&
                                v.get<std::int64_t>() <= most;
    if (fits) return v.get<std::int64_t>();
    fail(key);
    return 0;
  }

 private:
  const OrderedJson* find(const char* key) {
    if (!object_.is_object()) return nullptr;
    auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const OrderedJson& object_;
  std::string& wrong_;
};

Need need_of(const OrderedJson& json, std::string& wrong) {
  Need need;
  Fields f(json, wrong);
  std::string scope = "same-run";
  f.get("step", need.step);
  f.get("scope", scope);
  for (Need::Scope s : {Need::Scope::SameRun, Need::Scope::All, Need::Scope::Ended})
    if (scope == name_of(s)) {
      need.scope = s;
      return need;
    }
  f.fail("scope");
  return need;
}

RetryPolicy retries_of(const OrderedJson& json, std::string& wrong) {
  RetryPolicy r;
  Fields f(json, wrong);
  f.get("max", r.max);
  f.get("delay_ms", r.delay);
  f.each("on", [&](const OrderedJson& item) {
    std::optional<OutcomeClass> cls =
        item.is_string() ? outcome_class_of(item.get_ref<const std::string&>()) : std::nullopt;
    if (cls) {
      r.on.push_back(*cls);
    } else {
      f.fail("on");
    }
  });
  return r;
}

EarlySignal signal_of(const OrderedJson& json, std::string& wrong) {
  EarlySignal s;
  Fields f(json, wrong);
  f.get("number", s.number);
  f.get("ahead_ms", s.ahead);
  if (s.number < 1 || s.number > kLastSignal) f.fail("number");
  return s;
}

Growth growth_of(const OrderedJson& json, std::string& wrong) {
  Growth g;
  Fields f(json, wrong);
  f.get("memory", g.memory);
  f.get("gpu_memory", g.gpu_memory);
  for (const double factor : {g.memory, g.gpu_memory})
    if (factor != 0 && !(factor > 1 && factor <= kMostGrowth)) f.fail("grow");
  return g;
}

FailureRule rule_of(const OrderedJson& json, std::string& wrong) {
  FailureRule rule;
  std::string name;
  Fields f(json, wrong);
  f.get("match", rule.match);
  f.get("class", name);
  if (const std::optional<OutcomeClass> cls = outcome_class_of(name)) {
    rule.cls = *cls;
  } else {
    f.fail("class");
  }
  return rule;
}

NotifySpec notify_of(const OrderedJson& json, std::string& wrong) {
  NotifySpec n;
  std::vector<std::string> on;
  Fields f(json, wrong);
  f.get("on", on);
  n.on_failure = n.on_hold = n.on_end = false;
  for (const std::string& event : on) {
    n.on_failure |= event == "failure";
    n.on_hold |= event == "hold";
    n.on_end |= event == "end";
  }
  f.get("command", n.command);
  f.get("webhook", n.webhook);
  f.get("ntfy", n.ntfy);
  f.get("slack", n.slack);
  f.get("token", n.token);
  f.get("timeout_ms", n.timeout);
  for (const std::string* name : {&n.slack, &n.token})
    if (!name->empty() && variable_of(*name).empty()) f.fail("notify");
  if (n.timeout.count() <= 0 || n.timeout > kMostHookTime) f.fail("timeout_ms");
  return n;
}

SlurmOptions slurm_of(const OrderedJson& json, std::string& wrong) {
  SlurmOptions s;
  Fields f(json, wrong);
  f.get("partition", s.partition);
  f.get("account", s.account);
  f.get("qos", s.qos);
  f.get("constraint", s.constraint);
  f.get("time_ms", s.time);
  f.get("jobs_per_allocation", s.jobs_per_allocation);
  f.get("lanes", s.lanes);
  f.get("extra", s.extra);
  if (s.jobs_per_allocation < 1) f.fail("jobs_per_allocation");
  if (s.lanes < 1) f.fail("lanes");
  return s;
}

StepSpec step_of(const OrderedJson& json, std::string& wrong) {
  StepSpec s;
  Fields f(json, wrong);
  f.get("name", s.name);
  f.get("once", s.once);
  f.get("command", s.command);
  f.get("shell", s.shell);
  f.each("needs", [&](const OrderedJson& item) { s.needs.push_back(need_of(item, wrong)); });
  f.get("gpus", s.gpus);
  f.get("gpu_share", s.gpu_share);
  f.get("gpu_auto", s.gpu_auto);
  f.get("gpu", s.gpu);
  std::string sharing = "time";
  f.get("sharing", sharing);
  s.sharing = sharing_of(sharing).value_or(Sharing::Time);
  std::string outsiders = "avoid";
  f.get("outsiders", outsiders);
  s.outsiders = outsiders_of(outsiders).value_or(Outsiders::Avoid);
  f.get("cpus", s.cpus);
  f.get("memory_bytes", s.memory_bytes);
  f.get("gpu_memory_bytes", s.gpu_memory_bytes);
  f.get("overcommit", s.overcommit);
  f.get("timeout_ms", s.timeout);
  f.get("idle_timeout_ms", s.idle_timeout);
  f.get("stall_ms", s.stall);
  if (json.is_object() && json.contains("signal")) s.signal = signal_of(json["signal"], wrong);
  f.get("grace_ms", s.grace);
  if (json.is_object() && json.contains("retries")) s.retries = retries_of(json["retries"], wrong);
  if (json.is_object() && json.contains("slurm")) s.slurm = slurm_of(json["slurm"], wrong);
  if (json.is_object() && json.contains("grow")) s.grow = growth_of(json["grow"], wrong);
  f.get("rerun", s.rerun);
  f.get("breaker", s.breaker);
  f.each("failures", [&](const OrderedJson& item) { s.failures.push_back(rule_of(item, wrong)); });
  f.get("max_parallel", s.max_parallel);
  f.get("uses", s.uses);
  f.get("max_starting", s.max_starting);
  f.get("ready_ms", s.ready);
  f.get("priority", s.priority);
  f.get("weight", s.weight);
  f.get("expect", s.expect);
  f.get("env", s.env);
  f.get("env_pass", s.env_pass);
  f.get("cwd", s.cwd);
  std::string gpu_env = "uuid";
  f.get("gpu_env", gpu_env);
  s.gpu_env = gpu_env == "index" ? GpuEnv::Index : GpuEnv::Uuid;
  f.get("snapshot", s.snapshot);
  f.get("copy", s.copy);
  f.get("outputs", s.outputs);
  f.get("metrics", s.metrics);
  f.get("fake_duration", s.fake.duration);
  f.get("fake_exit", s.fake.exit);
  return s;
}

Error corrupt(std::string why) {
  return Error{ErrorKind::Corrupt, 0, "sweep as JSON: " + std::move(why)};
}

}  // namespace

std::string to_wire(const SweepSpec& sweep) {
  OrderedJson out;
  out["name"] = sweep.name;
  if (!sweep.out.empty()) out["out"] = sweep.out;
  out["folder"] = sweep.folder;
  if (!sweep.file.empty()) out["file"] = sweep.file;
  out["steps"] = OrderedJson::array();
  for (const StepSpec& step : sweep.steps) out["steps"].push_back(step_to_json(step));
  if (!sweep.columns.empty()) out["columns"] = sweep.columns;
  for (const auto& [name, value] : sweep.limits)
    out["limits"].push_back(OrderedJson::array({name, value}));
  for (const NotifySpec& table : sweep.notify) out["notify"].push_back(notify_to_json(table));
  return json_text(out);
}

Result<SweepSpec> sweep_from_wire(std::string_view text) {
  if (nests_deeper_than(text, kMostNestedJson)) return corrupt("nested too deep");
  OrderedJson json = OrderedJson::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return corrupt("not an object");
  SweepSpec sweep;
  std::string wrong;
  Fields f(json, wrong);
  f.get("name", sweep.name);
  f.get("out", sweep.out);
  f.get("folder", sweep.folder);
  f.get("file", sweep.file);
  f.each("steps", [&](const OrderedJson& item) { sweep.steps.push_back(step_of(item, wrong)); });
  f.get("columns", sweep.columns);
  f.each("limits", [&](const OrderedJson& item) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() ||
        !item[1].is_number_integer())
      return f.fail("limits");
    sweep.limits.emplace_back(item[0].get<std::string>(),
                              static_cast<int>(f.whole("limits", item[1], INT_MAX)));
  });
  f.each("notify",
         [&](const OrderedJson& item) { sweep.notify.push_back(notify_of(item, wrong)); });
  if (sweep.steps.size() > kMostSteps) f.fail("steps");
  if (!wrong.empty()) return corrupt(fmt::format("field `{}` has a wrong value", wrong));
  for (const StepSpec& step : sweep.steps)
    for (const Need& need : step.needs)
      if (need.step < 0 || static_cast<std::size_t>(need.step) >= sweep.steps.size())
        return corrupt(fmt::format("step `{}` needs step number {}, which doesn't exist", step.name,
                                   need.step));
  return sweep;
}

std::string to_wire(const RunSpec& run) {
  std::string out;
  out.reserve(run.json.size() + run.texts.size() + 20);
  out += "{\"json\":";
  out += run.json;
  if (!run.texts.empty()) {
    out += ",\"texts\":";
    out += run.texts;
  }
  out += '}';
  return out;
}

Result<RunSpec> run_from_wire(std::string_view line) {
  if (find_invalid_utf8(line) != std::string_view::npos)
    return Error{ErrorKind::Corrupt, 0, "a run: not valid UTF-8"};
  RunSpec run;
  run.json.clear();
  bool objects = true;
  Result<void> read = visit_members(line, [&](std::string&& name, std::string_view value) {
    if (name != "json" && name != "texts") return;
    objects &= value[0] == '{';
    (name == "json" ? run.json : run.texts) = value;
  });
  if (!read) return Error{ErrorKind::Corrupt, 0, "a run: " + read.error().message};
  if (run.json.empty() || !objects)
    return Error{ErrorKind::Corrupt, 0,
                 fmt::format("a run: no parameters in {}", line.substr(0, 80))};
  return run;
}

}  // namespace pergpu
