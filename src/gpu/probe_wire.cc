// Reading is strict about types, since both ends are one program, and never throws: a probe that a
// test or a broken library made talk nonsense gives an error, not the end of the coordinator.
#include "gpu/probe_wire.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
          {"minor", reading.minor},
          {"numa_node", reading.numa_node},
          {"near_cpus", reading.near_cpus},
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

// Names from a driver or from /proc need not be UTF-8.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_line(const ProbeRequest& request) {
  if (request.rest) return dump({{"id", request.id}, {"op", "rest"}, {"stay", request.stay}});
  return dump({{"id", request.id}, {"op", "look"}, {"skip", request.skip}, {"stay", request.stay}});
}

std::string to_line(const ProbeProgress& progress) {
  Json json = {{"id", progress.id}, {"at", progress.at}, {"index", progress.index}};
  if (!progress.xids.empty()) json["xids"] = json_of(progress.xids);
  return dump(json);
}

std::string to_line(const ProbeReply& reply) {
  return dump({{"id", reply.id}, {"look", json_of(reply.look)}});
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
  // A coordinator that runs on while pergpu is installed anew starts the new one's probe.
  if (json.contains("stay")) fields.flag("stay", request.stay);
  if (const char* bad = fields.bad()) {
    return bad_line(fmt::format("no or no right \"{}\"", bad), line);
  }
  if (op != "look" && op != "rest") return bad_line(fmt::format("unknown op \"{}\"", op), line);
  return request;
}

Result<std::variant<ProbeProgress, ProbeReply>> parse_answer(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return bad_line("expected a JSON object", line);
  Fields fields(json);
  const char* bad = nullptr;
  const auto look = json.find("look");
  std::variant<ProbeProgress, ProbeReply> answer;
  if (look != json.end()) {
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
  if (bad != nullptr) return bad_line(fmt::format("no or no right \"{}\"", bad), line);
  return answer;
}

}  // namespace pergpu::gpu
