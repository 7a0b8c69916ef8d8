// Reading is strict about types, since both ends are one program, and never throws: a probe that a
// test or a broken library made talk nonsense gives an error, not the end of the coordinator.
#include "gpu/probe_wire.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json_text.h"

namespace pergpu::gpu {

namespace {

using Json = nlohmann::json;

constexpr std::pair<GpuHealth, const char*> kHealthNames[] = {
    {GpuHealth::Ok, "ok"},
    {GpuHealth::Unknown, "unknown"},
    {GpuHealth::Lost, "lost"},
    {GpuHealth::Error, "error"},
};

const char* health_name(GpuHealth health) {
  for (const auto& [value, name] : kHealthNames) {
    if (value == health) return name;
  }
  return "unknown";
}

// Remembers whether each field asked for was there with the right type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  void text(const char* key, std::string& out) {
    if (const Json* value = find(key, &Json::is_string)) out = value->get<std::string>();
  }
  template <typename T>
  void number(const char* key, T& out) {
    if (const Json* value = find(key, &Json::is_number_integer)) out = value->get<T>();
  }
  void flag(const char* key, bool& out) {
    if (const Json* value = find(key, &Json::is_boolean)) out = value->get<bool>();
  }
  template <typename T>
  void optional_number(const char* key, std::optional<T>& out) {
    const auto value = object_.find(key);
    if (value == object_.end() || value->is_null()) return;
    number(key, out.emplace());
  }
  void optional_flag(const char* key, std::optional<bool>& out) {
    const auto value = object_.find(key);
    if (value == object_.end() || value->is_null()) return;
    flag(key, out.emplace());
  }
  const Json& array(const char* key) {
    static const Json none = Json::array();
    const Json* value = find(key, &Json::is_array);
    return value != nullptr ? *value : none;
  }
  const char* bad() const { return bad_; }

 private:
  const Json* find(const char* key, bool (Json::*is_right)() const) {
    const auto value = object_.find(key);
    if (value != object_.end() && ((*value).*is_right)()) return &*value;
    if (bad_ == nullptr) bad_ = key;
    return nullptr;
  }
  const Json& object_;
  const char* bad_ = nullptr;
};

Error bad_line(const std::string& why, std::string_view line) {
  return Error{ErrorKind::Corrupt, 0,
               fmt::format("GPU probe: {} in \"{}\"", why, line.substr(0, 120))};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <typename T, typename ToJson>
Json list_of(const std::vector<T>& values, ToJson to_json) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

Json json_of(const GpuProcess& process) {
  Json object = {{"pid", process.pid},
                 {"compute", process.compute},
                 {"matched", process.matched},
                 {"command", process.command},
                 {"ancestors", process.ancestors}};
  if (process.memory_bytes) object["memory_bytes"] = *process.memory_bytes;
  if (process.uid) object["uid"] = *process.uid;
  return object;
}

const char* read(const Json& json, GpuProcess& process) {
  Fields fields(json);
  fields.number("pid", process.pid);
  fields.flag("compute", process.compute);
  fields.flag("matched", process.matched);
  fields.text("command", process.command);
  fields.optional_number("memory_bytes", process.memory_bytes);
  fields.optional_number("uid", process.uid);
  for (const Json& pid : fields.array("ancestors")) {
    if (pid.is_number_integer()) process.ancestors.push_back(pid.get<std::int32_t>());
  }
  return fields.bad();
}

const char* read_list(const Json& list, std::vector<GpuProcess>& processes) {
  for (const Json& one : list) {
    if (const char* bad = read(one, processes.emplace_back())) return bad;
  }
  return nullptr;
}

Json json_of(const GpuXid& xid) {
  return {{"uuid", xid.uuid}, {"number", xid.number}, {"boot_ns", xid.boot_ns}};
}

Json json_of(const std::vector<GpuXid>& xids) {
  return list_of(xids, [](const GpuXid& one) { return json_of(one); });
}

const char* read_list(const Json& list, std::vector<GpuXid>& xids) {
  for (const Json& one : list) {
    GpuXid& xid = xids.emplace_back();
    Fields fields(one);
    fields.text("uuid", xid.uuid);
    fields.number("number", xid.number);
    fields.number("boot_ns", xid.boot_ns);
    if (fields.bad() != nullptr) return fields.bad();
  }
  return nullptr;
}

Json json_of(const GpuReading& reading) {
  const auto process_json = [](const GpuProcess& process) { return json_of(process); };
  return {{"utilization", or_null(reading.utilization)},
          {"uuid", reading.uuid},
          {"name", reading.name},
          {"pci", reading.pci},
          {"index", reading.index},
          {"instance", reading.instance},
          {"minor", reading.minor},
          {"numa_node", reading.numa_node},
          {"near_cpus", reading.near_cpus},
          {"distances", reading.distances},
          {"total_bytes", reading.total_bytes},
          {"used_bytes", reading.used_bytes},
          {"health", health_name(reading.health)},
          {"note", reading.note},
          {"repair_pending", or_null(reading.repair_pending)},
          {"repair_failed", or_null(reading.repair_failed)},
          {"recovery_action", or_null(reading.recovery_action)},
          {"persistent", or_null(reading.persistent)},
          {"mig", or_null(reading.mig)},
          {"mig_pending", or_null(reading.mig_pending)},
          {"compute_mode", or_null(reading.compute_mode)},
          {"processes", list_of(reading.processes, process_json)},
          {"device_holders", list_of(reading.device_holders, process_json)}};
}

const char* read(const Json& json, GpuReading& reading) {
  Fields fields(json);
  std::string health;
  fields.text("uuid", reading.uuid);
  fields.text("name", reading.name);
  fields.text("pci", reading.pci);
  fields.number("index", reading.index);
  fields.number("instance", reading.instance);
  fields.number("minor", reading.minor);
  fields.number("numa_node", reading.numa_node);
  fields.number("total_bytes", reading.total_bytes);
  fields.number("used_bytes", reading.used_bytes);
  fields.optional_number("utilization", reading.utilization);
  fields.text("health", health);
  fields.text("note", reading.note);
  fields.optional_flag("repair_pending", reading.repair_pending);
  fields.optional_flag("repair_failed", reading.repair_failed);
  fields.optional_number("recovery_action", reading.recovery_action);
  fields.optional_flag("persistent", reading.persistent);
  fields.optional_flag("mig", reading.mig);
  fields.optional_flag("mig_pending", reading.mig_pending);
  fields.optional_number("compute_mode", reading.compute_mode);
  for (const Json& distance : fields.array("distances")) {
    reading.distances.push_back(distance.is_number_integer() ? distance.get<int>() : 0);
  }
  for (const Json& cpu : fields.array("near_cpus")) {
    if (cpu.is_number_integer()) reading.near_cpus.push_back(cpu.get<int>());
  }
  reading.health = GpuHealth::Unknown;
  for (const auto& [value, name] : kHealthNames) {
    if (health == name) reading.health = value;
  }
  if (const char* bad = read_list(fields.array("processes"), reading.processes)) return bad;
  if (const char* bad = read_list(fields.array("device_holders"), reading.device_holders)) {
    return bad;
  }
  return fields.bad();
}

Json json_of(const GpuLook& look) {
  return {{"complete", look.complete},
          {"why", look.why},
          {"no_driver", look.no_driver},
          {"driver_mismatch", look.driver_mismatch},
          {"in_container", look.in_container},
          {"driver", look.driver},
          {"library", look.library},
          {"cuda", look.cuda},
          {"xids", json_of(look.xids)},
          {"gpus", list_of(look.gpus, [](const GpuReading& one) { return json_of(one); })}};
}

const char* read(const Json& json, GpuLook& look) {
  Fields fields(json);
  fields.flag("complete", look.complete);
  fields.text("why", look.why);
  fields.flag("no_driver", look.no_driver);
  fields.flag("driver_mismatch", look.driver_mismatch);
  fields.flag("in_container", look.in_container);
  fields.text("driver", look.driver);
  fields.text("library", look.library);
  fields.text("cuda", look.cuda);
  if (const char* bad = read_list(fields.array("xids"), look.xids)) return bad;
  for (const Json& one : fields.array("gpus")) {
    if (const char* bad = read(one, look.gpus.emplace_back())) return bad;
  }
  return fields.bad();
}

Json json_of(const GpuUsage& usage) {
  return {{"uuid", usage.uuid},
          {"busy_percent", or_null(usage.busy_percent)},
          {"used_bytes", or_null(usage.used_bytes)},
          {"power_mw", or_null(usage.power_mw)},
          {"temperature_c", or_null(usage.temperature_c)},
          {"clock_mhz", or_null(usage.clock_mhz)},
          {"throttle", or_null(usage.throttle)}};
}

const char* read(const Json& json, GpuUsage& usage) {
  Fields fields(json);
  fields.text("uuid", usage.uuid);
  fields.optional_number("busy_percent", usage.busy_percent);
  fields.optional_number("used_bytes", usage.used_bytes);
  fields.optional_number("power_mw", usage.power_mw);
  fields.optional_number("temperature_c", usage.temperature_c);
  fields.optional_number("clock_mhz", usage.clock_mhz);
  fields.optional_number("throttle", usage.throttle);
  return fields.bad();
}

Json json_of(const std::optional<os::TreeUsage>& tree) {
  if (!tree) return nullptr;
  return {{"processes", tree->processes},
          {"cpu_ns", tree->cpu_ns},
          {"resident_bytes", tree->resident_bytes},
          {"proportional_bytes", or_null(tree->proportional_bytes)},
          {"read_bytes", or_null(tree->read_bytes)},
          {"written_bytes", or_null(tree->written_bytes)}};
}

const char* read(const Json& json, std::optional<os::TreeUsage>& tree) {
  if (json.is_null()) return nullptr;
  os::TreeUsage& usage = tree.emplace();
  Fields fields(json);
  fields.number("processes", usage.processes);
  fields.number("cpu_ns", usage.cpu_ns);
  fields.number("resident_bytes", usage.resident_bytes);
  fields.optional_number("proportional_bytes", usage.proportional_bytes);
  fields.optional_number("read_bytes", usage.read_bytes);
  fields.optional_number("written_bytes", usage.written_bytes);
  return fields.bad();
}

Json json_of(const UsageAnswer& answer) {
  using Tree = std::optional<os::TreeUsage>;
  return {{"boot_ns", answer.boot_ns},
          {"cost_ns", answer.cost_ns},
          {"trees", list_of(answer.trees, [](const Tree& tree) { return json_of(tree); })},
          {"gpus", list_of(answer.gpus, [](const GpuUsage& one) { return json_of(one); })}};
}

const char* read(const Json& json, UsageAnswer& answer) {
  Fields fields(json);
  fields.number("boot_ns", answer.boot_ns);
  fields.number("cost_ns", answer.cost_ns);
  for (const Json& one : fields.array("trees")) {
    if (const char* bad = read(one, answer.trees.emplace_back())) return bad;
  }
  for (const Json& one : fields.array("gpus")) {
    if (const char* bad = read(one, answer.gpus.emplace_back())) return bad;
  }
  return fields.bad();
}

Json json_of(const UsageQuestion& question) {
  return {{"trees", list_of(question.trees,
                            [](const os::TreeRoot& root) {
                              return Json::array({root.pid, root.start_ticks});
                            })},
          {"gpus", question.gpus}};
}

const char* read(Fields& fields, UsageQuestion& question) {
  for (const Json& pair : fields.array("trees")) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() &&
                         pair[1].is_number_integer();
    if (!is_pair) return "trees";
    question.trees.push_back({pair[0].get<pid_t>(), pair[1].get<std::uint64_t>()});
  }
  for (const Json& uuid : fields.array("gpus")) {
    if (!uuid.is_string()) return "gpus";
    question.gpus.push_back(uuid.get<std::string>());
  }
  return fields.bad();
}

// Names from a driver or from /proc need not be UTF-8.
std::string dump(const Json& json) { return json_text(json); }

}  // namespace

std::string to_line(const ProbeRequest& request) {
  if (request.rest) return dump({{"id", request.id}, {"op", "rest"}, {"stay", request.stay}});
  Json json = {{"id", request.id}, {"op", "look"}, {"skip", request.skip}, {"stay", request.stay}};
  if (request.usage) {
    json["op"] = "usage";
    json.update(json_of(*request.usage));
  }
  return dump(json);
}

std::string to_line(const ProbeProgress& progress) {
  Json json = {{"id", progress.id}, {"at", progress.at}, {"index", progress.index}};
  if (!progress.xids.empty()) json["xids"] = json_of(progress.xids);
  return dump(json);
}

std::string to_line(const ProbeReply& reply) {
  return dump({{"id", reply.id}, {"look", json_of(reply.look)}});
}

std::string to_line(const ProbeUsage& usage) {
  return dump({{"id", usage.id}, {"usage", json_of(usage.usage)}});
}

Result<ProbeRequest> parse_request(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return bad_line("expected a JSON object", line);
  ProbeRequest request;
  std::string op;
  Fields fields(json);
  fields.number("id", request.id);
  fields.text("op", op);
  request.rest = op == "rest";
  if (!request.rest) {
    for (const Json& index : fields.array("skip")) {
      if (index.is_number_integer()) request.skip.insert(index.get<int>());
    }
  }
  // A coordinator that runs on while pergpu is installed again starts the new one's probe.
  if (json.contains("stay")) fields.flag("stay", request.stay);
  const char* bad = op == "usage" ? read(fields, request.usage.emplace()) : nullptr;
  if (bad == nullptr) bad = fields.bad();
  if (bad != nullptr) return bad_line(fmt::format("missing or invalid \"{}\"", bad), line);
  if (op != "look" && op != "rest" && op != "usage")
    return bad_line(fmt::format("unknown op \"{}\"", op), line);
  return request;
}

Result<ProbeAnswer> parse_answer(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return bad_line("expected a JSON object", line);
  Fields fields(json);
  const char* bad = nullptr;
  const auto look = json.find("look");
  const auto usage = json.find("usage");
  ProbeAnswer answer;
  if (usage != json.end()) {
    ProbeUsage told;
    fields.number("id", told.id);
    bad = read(*usage, told.usage);
    answer = std::move(told);
  } else if (look != json.end()) {
    ProbeReply reply;
    fields.number("id", reply.id);
    bad = read(*look, reply.look);
    answer = std::move(reply);
  } else {
    ProbeProgress progress;
    fields.number("id", progress.id);
    fields.text("at", progress.at);
    fields.number("index", progress.index);
    if (json.contains("xids")) bad = read_list(fields.array("xids"), progress.xids);
    answer = std::move(progress);
  }
  if (bad == nullptr) bad = fields.bad();
  if (bad != nullptr) return bad_line(fmt::format("missing or invalid \"{}\"", bad), line);
  return answer;
}

}  // namespace pergpu::gpu
