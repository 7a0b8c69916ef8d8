// JSON of the snapshot values.
//
// Each struct names its fields once (`fields`), and both directions walk that list, so that a field
// cannot be written under one name and read under another.  Reading is lenient: a missing field, a
// null or a value of another type leaves the default, because the peer may be another version.
//
// Texts are bytes to us.  Environment entries must arrive unchanged even when they are not UTF-8,
// which JSON cannot carry: such an entry travels as {"hex":"…"}.  All other texts are for people;
// json_text() writes them.
#include "api/snapshot.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "api/shell.h"
#include "duration.h"
#include "os/utf8.h"

namespace pergpu {
namespace {

using nlohmann::json;

/// Marks a wall-clock field: RFC 3339 on the wire, null while it is 0.
template <typename T>
struct Time {
  T& ns;
};
template <typename T>
Time<T> time_of(T& ns) {
  return Time<T>{ns};
}

json bytes_to_json(const std::string& bytes) {
  if (os::is_utf8(bytes)) return bytes;
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return json{{"hex", hex}};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string bytes_from_json(const json& j) {
  if (j.is_string()) return j.get<std::string>();
  std::string bytes;
  if (!j.is_object() || !j.contains("hex") || !j["hex"].is_string()) return bytes;
  const std::string hex = j["hex"].get<std::string>();
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]);
    const int low = hex_digit(hex[i + 1]);
    if (high < 0 || low < 0) return {};
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

struct Writer {
  json& j;

  template <typename T>
  void operator()(const char* name, const T& value) {
    j[name] = value;
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    j[name] = value ? json(*value) : json(nullptr);
  }
  template <typename T>
  void operator()(const char* name, Time<T> time) {
    j[name] = time.ns == 0 ? json(nullptr) : json(rfc3339(time.ns));
  }
};

bool read(const json& j, std::string& value) {
  if (!j.is_string()) return false;
  value = j.get<std::string>();
  return true;
}
bool read(const json& j, bool& value) {
  if (!j.is_boolean()) return false;
  value = j.get<bool>();
  return true;
}
template <typename T>
requires std::is_arithmetic_v<T>
bool read(const json& j, T& value) {
  if (std::is_integral_v<T> ? !j.is_number_integer() : !j.is_number()) return false;
  value = j.get<T>();
  return true;
}
bool read(const json& j, GpuHolder& value) {
  from_json(j, value);
  return j.is_object();
}
bool read(const json& j, StartSnapshot& value) {
  from_json(j, value);
  return j.is_object();
}
bool read(const json& j, WaitSnapshot& value) {
  from_json(j, value);
  return j.is_object();
}
bool read(const json& j, ArraySnapshot& value) {
  from_json(j, value);
  return j.is_object();
}
template <typename A, typename B>
bool read(const json& j, std::pair<A, B>& value) {
  return j.is_array() && j.size() == 2 && read(j[0], value.first) && read(j[1], value.second);
}
template <typename T>
bool read(const json& j, std::vector<T>& value) {
  if (!j.is_array()) return false;
  value.clear();
  for (const json& element : j) {
    T one{};
    if (read(element, one)) value.push_back(std::move(one));
  }
  return true;
}
template <typename T>
bool read(const json& j, std::map<std::string, T>& value) {
  if (!j.is_object()) return false;
  value.clear();
  for (const auto& [key, element] : j.items()) {
    T one{};
    if (read(element, one)) value[key] = one;
  }
  return true;
}

struct Reader {
  const json& j;

  template <typename T>
  void operator()(const char* name, T& value) {
    const auto found = j.find(name);
    if (found != j.end()) read(*found, value);
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& value) {
    const auto found = j.find(name);
    if (found == j.end()) return;
    T one{};
    if (read(*found, one)) {
      value = std::move(one);
    } else {
      value.reset();
    }
  }
  template <typename T>
  void operator()(const char* name, Time<T> time) {
    const auto found = j.find(name);
    time.ns = 0;
    if (found != j.end() && found->is_string()) time.ns = from_rfc3339(found->get<std::string>());
  }
};

// The lists.  V is the struct, const or not.
template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, JobSnapshot>
void fields(V& v, F&& f) {
  f("id", v.id);
  f("sweep", v.sweep);
  f("sweep_id", v.sweep_id);
  f("run", v.run);
  f("index", v.index);
  f("step", v.step);
  f("state", v.state);
  f("reason", v.reason);
  f("class", v.cls);
  f("attempt", v.attempt);
  f("exit", v.exit);
  f("signal", v.signal);
  f("gpus", v.gpus);
  f("lane", v.lane);
  f("lanes", v.lanes);
  f("node", v.node);
  f("queued_at", time_of(v.queued_at));
  f("started_at", time_of(v.started_at));
  f("ended_at", time_of(v.ended_at));
  f("duration_s", v.duration_s);
  f("expected_s", v.expected_s);
  f("expected_end_at", time_of(v.expected_end_at));
  f("out", v.out);
  f("log", v.log);
  f("metrics", v.metrics);
  f("status", v.status);
  f("progress", v.progress);
  f("retries_left", v.retries_left);
  f("replaced", v.replaced);
  f("listed", v.listed);
  f("warnings", v.warnings);
  f("cores", v.cores);
  f("resident_bytes", v.resident_bytes);
  f("gpu_busy_percent", v.gpu_busy_percent);
  f("gpu_memory_bytes", v.gpu_memory_bytes);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, SweepSnapshot>
void fields(V& v, F&& f) {
  f("id", v.id);
  f("name", v.name);
  f("root", v.root);
  f("steps", v.steps);
  f("columns", v.columns);
  f("rows", v.rows);
  f("runs", v.runs);
  f("counts", v.counts);
  f("lanes", v.lanes);
  f("remaining_s", v.remaining_s);
  f("warnings", v.warnings);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, SweepSummary>
void fields(V& v, F&& f) {
  f("id", v.id);
  f("name", v.name);
  f("counts", v.counts);
  f("lanes", v.lanes);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, LaneSnapshot>
void fields(V& v, F&& f) {
  f("name", v.name);
  f("uuid", v.uuid);
  f("state", v.state);
  f("why", v.why);
  f("job", v.job);
  f("idle_s", v.idle_s);
  f("idle_now_s", v.idle_now_s);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, GpuHolder>
void fields(V& v, F&& f) {
  f("pid", v.pid);
  f("user", v.user);
  f("command", v.command);
  f("memory_bytes", v.memory_bytes);
  f("job", v.job);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, GpuSnapshot>
void fields(V& v, F&& f) {
  f("uuid", v.uuid);
  f("index", v.index);
  f("instance", v.instance);
  f("name", v.name);
  f("pci", v.pci);
  f("state", v.state);
  f("why", v.why);
  f("lanes", v.lanes);
  f("memory_bytes", v.memory_bytes);
  f("used_bytes", v.used_bytes);
  f("holders", v.holders);
  f("busy_percent", v.busy_percent);
  f("power_w", v.power_w);
  f("temperature_c", v.temperature_c);
  f("clock_mhz", v.clock_mhz);
  f("throttle", v.throttle);
}

/// Without `env` and `cwd`, whose bytes need care, and `shell`.
template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, SubmitContext>
void fields(V& v, F&& f) {
  f("umask", v.umask);
  f("limits", v.limits);
  f("lanes", v.lanes);
  f("devices", v.devices);
  f("engine", v.engine);
  f("rerun", v.rerun);
  f("only_new", v.only_new);
  f("add", v.add);
  f("unique_name", v.unique_name);
  f("overrides", v.overrides);
  f("inherit", v.inherit);
  f("devices_given", v.devices_given);
  f("git_commit", v.git_commit);
  f("git_dirty", v.git_dirty);
  f("key", v.key);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, SubmitReply>
void fields(V& v, F&& f) {
  f("sweep", v.sweep);
  f("sweep_id", v.sweep_id);
  f("jobs", v.jobs);
  f("new", v.fresh);
  f("kept", v.kept);
  f("requeued", v.requeued);
  f("dropped", v.dropped);
  f("outputs_gone", v.outputs_gone);
  f("others", v.others);
  f("old_running", v.old_running);
  f("remembered", v.remembered);
  f("warnings", v.warnings);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, StartSnapshot>
void fields(V& v, F&& f) {
  f("id", v.id);
  f("run", v.run);
  f("step", v.step);
  f("lane", v.lane);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, WaitSnapshot>
void fields(V& v, F&& f) {
  f("step", v.step);
  f("jobs", v.jobs);
  f("why", v.why);
}

template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, ArraySnapshot>
void fields(V& v, F&& f) {
  f("name", v.name);
  f("step", v.step);
  f("tasks", v.tasks);
  f("jobs", v.jobs);
  f("script", v.script);
}

/// Without `reply`, whose fields stand beside these.
template <typename V, typename F>
requires std::is_same_v<std::remove_const_t<V>, SubmitPreview>
void fields(V& v, F&& f) {
  f("runs", v.runs);
  f("starts", v.starts);
  f("waits", v.waits);
  f("arrays", v.arrays);
}

template <typename V>
void write_fields(json& j, const V& v) {
  if (!j.is_object()) j = json::object();
  fields(v, Writer{j});
}
template <typename V>
void read_fields(const json& j, V& v) {
  v = V{};
  if (j.is_object()) fields(v, Reader{j});
}

struct Date {
  std::int64_t year = 1970;
  unsigned int month = 1;
  unsigned int day = 1;
};

// Days since 1970-01-01 in the proleptic Gregorian calendar, counted in eras of 400 years that
// begin on 1 March, so that the leap day is the last of a year.
std::int64_t days_of(Date d) {
  const std::int64_t y = d.month <= 2 ? d.year - 1 : d.year;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t year_of_era = y - era * 400;
  const std::int64_t month_from_march = (d.month + 9) % 12;
  const std::int64_t day_of_year = (153 * month_from_march + 2) / 5 + d.day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

Date date_of(std::int64_t days) {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const std::int64_t day_of_era = days - era * 146097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month_from_march = (5 * day_of_year + 2) / 153;
  Date d;
  d.day = static_cast<unsigned int>(day_of_year - (153 * month_from_march + 2) / 5 + 1);
  d.month = static_cast<unsigned int>(month_from_march < 10 ? month_from_march + 3
                                                            : month_from_march - 9);
  d.year = year_of_era + era * 400 + (d.month <= 2 ? 1 : 0);
  return d;
}

/// Reads `width` digits at `*at`; -1 when they are not there.
int digits(std::string_view text, std::size_t* at, std::size_t width) {
  if (text.size() < *at + width) return -1;
  int value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const char c = text[*at + i];
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  *at += width;
  return value;
}

bool accept(std::string_view text, std::size_t* at, std::string_view any_of) {
  if (*at >= text.size() || any_of.find(text[*at]) == std::string_view::npos) return false;
  ++*at;
  return true;
}

}  // namespace

void to_json(json& j, const JobSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, JobSnapshot& v) { read_fields(j, v); }
void to_json(json& j, const SweepSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, SweepSnapshot& v) { read_fields(j, v); }
void to_json(json& j, const SweepSummary& v) { write_fields(j, v); }
void from_json(const json& j, SweepSummary& v) { read_fields(j, v); }
void to_json(json& j, const LaneSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, LaneSnapshot& v) { read_fields(j, v); }
void to_json(json& j, const GpuHolder& v) { write_fields(j, v); }
void from_json(const json& j, GpuHolder& v) { read_fields(j, v); }
void to_json(json& j, const GpuSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, GpuSnapshot& v) { read_fields(j, v); }

void to_json(json& j, const SubmitContext& v) {
  write_fields(j, v);
  j["cwd"] = bytes_to_json(v.cwd);
  json env = json::array();
  for (const std::string& entry : v.env) env.push_back(bytes_to_json(entry));
  j["env"] = std::move(env);
  if (v.shell) j["shell"] = json_of(*v.shell);
}

void from_json(const json& j, SubmitContext& v) {
  read_fields(j, v);
  if (!j.is_object()) return;
  if (const auto cwd = j.find("cwd"); cwd != j.end()) v.cwd = bytes_from_json(*cwd);
  if (const auto shell = j.find("shell"); shell != j.end()) v.shell = attributes_of(*shell);
  if (const auto env = j.find("env"); env != j.end() && env->is_array()) {
    for (const json& entry : *env) v.env.push_back(bytes_from_json(entry));
  }
}

void to_json(json& j, const SubmitReply& v) {
  write_fields(j, v);
  j["schema"] = 1;
}
void from_json(const json& j, SubmitReply& v) { read_fields(j, v); }
void to_json(json& j, const StartSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, StartSnapshot& v) { read_fields(j, v); }
void to_json(json& j, const WaitSnapshot& v) { write_fields(j, v); }
void from_json(const json& j, WaitSnapshot& v) { read_fields(j, v); }
void to_json(json& j, const ArraySnapshot& v) { write_fields(j, v); }
void from_json(const json& j, ArraySnapshot& v) { read_fields(j, v); }
void to_json(json& j, const SubmitPreview& v) {
  to_json(j, v.reply);
  write_fields(j, v);
}
void from_json(const json& j, SubmitPreview& v) {
  read_fields(j, v);
  from_json(j, v.reply);
}

std::string rfc3339(std::int64_t wall_ns) {
  std::int64_t seconds = wall_ns / kSecond;
  std::int64_t within = wall_ns % kSecond;
  if (within < 0) within += kSecond, --seconds;
  const std::int64_t days = seconds >= 0 ? seconds / 86400 : -((86399 - seconds) / 86400);
  const std::int64_t of_day = seconds - days * 86400;
  const Date d = date_of(days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", d.year, d.month, d.day,
                     of_day / 3600, of_day / 60 % 60, of_day % 60, within / 1'000'000);
}

std::int64_t from_rfc3339(const std::string& text) {
  std::size_t at = 0;
  const int year = digits(text, &at, 4);
  if (year < 0 || !accept(text, &at, "-")) return 0;
  const int month = digits(text, &at, 2);
  if (month < 1 || month > 12 || !accept(text, &at, "-")) return 0;
  const int day = digits(text, &at, 2);
  if (day < 1 || day > 31 || !accept(text, &at, "Tt ")) return 0;
  const int hour = digits(text, &at, 2);
  if (hour < 0 || hour > 23 || !accept(text, &at, ":")) return 0;
  const int minute = digits(text, &at, 2);
  if (minute < 0 || minute > 59 || !accept(text, &at, ":")) return 0;
  const int second = digits(text, &at, 2);
  if (second < 0 || second > 60) return 0;

  std::int64_t fraction = 0;
  if (accept(text, &at, ".")) {
    std::int64_t unit = kSecond;
    const std::size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      unit /= 10;
      fraction += (text[at] - '0') * unit;
      ++at;
    }
    if (at == first) return 0;
  }

  std::int64_t offset_s = 0;
  if (!accept(text, &at, "Zz")) {
    const bool west = at < text.size() && text[at] == '-';
    if (!accept(text, &at, "+-")) return 0;
    const int hours = digits(text, &at, 2);
    if (hours < 0 || !accept(text, &at, ":")) return 0;
    const int minutes = digits(text, &at, 2);
    if (minutes < 0) return 0;
    offset_s = (hours * 3600 + minutes * 60) * (west ? -1 : 1);
  }
  if (at != text.size()) return 0;

  const Date date{year, static_cast<unsigned int>(month), static_cast<unsigned int>(day)};
  const std::int64_t seconds =
      days_of(date) * 86400 + hour * 3600 + minute * 60 + second - offset_s;
  // Nanoseconds reach from 1677 to 2262.
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kSecond - 1;
  if (seconds > kMostSeconds || seconds < -kMostSeconds) return 0;
  return seconds * kSecond + fraction;
}

}  // namespace pergpu
