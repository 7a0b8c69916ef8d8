// Written without a document tree, because it is rendered once or twice per job on the deciding
// thread.  Bytes that are not UTF-8 (file names, arguments) become U+FFFD: the record is for
// people.
#include "run/record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "json_text.h"

namespace pergpu {
namespace {

/// JSON text, indented by two spaces a level, keys in the order of the calls.
class Writer {
 public:
  Writer& open(char bracket) {
    text_ += bracket;
    ++depth_;
    is_first_ = true;
    return *this;
  }
  Writer& close(char bracket) {
    --depth_;
    if (!is_first_) line();
    text_ += bracket;
    is_first_ = false;
    return *this;
  }
  /// The place of the next element of an array.
  Writer& next() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
    line();
    return *this;
  }
  Writer& key(std::string_view name) {
    next().value(name);
    text_ += ": ";
    return *this;
  }
  void value(std::string_view string) {
    const bool is_plain = std::all_of(string.begin(), string.end(), [](char c) {
      return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    });
    if (!is_plain) return value(nlohmann::json(string));
    ((text_ += '"') += string) += '"';
  }
  void value(const char* string) { value(std::string_view(string)); }
  void value(const std::string& string) { value(std::string_view(string)); }
  void value(std::int64_t number) { text_ += std::to_string(number); }
  void value(int number) { text_ += std::to_string(number); }
  /// Anything else.
  void value(const nlohmann::json& other) { text_ += json_text(other); }
  void value(const std::vector<std::string>& strings) {
    open('[');
    for (const std::string& string : strings) next().value(string);
    close(']');
  }
  void value(const std::vector<std::pair<std::string, std::string>>& members) {
    open('{');
    for (const auto& [name, string] : members) key(name).value(string);
    close('}');
  }
  void text_or_null(const std::string& string) {
    if (string.empty()) return value(nlohmann::json());
    value(string);
  }
  std::string take() && { return std::move(text_) + "\n"; }

 private:
  void line() {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }
  std::string text_;
  std::size_t depth_ = 0;
  bool is_first_ = true;
};

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::string to_json_text(const AttemptRecord& r) {
  Writer w;
  w.open('{');
  w.key("schema").value(1);
  w.key("job").value(r.id.job.value);
  w.key("attempt").value(r.id.number);
  w.key("state").value(r.state);
  if (!r.home.empty()) w.key("home").value(r.home);  // the keeper reads these (keeper/folder.h)
  w.key("sweep").value(r.sweep);
  w.key("run").text_or_null(r.run);
  w.key("step").value(r.step);
  w.key("argv").value(r.argv);
  w.key("cwd").value(r.cwd);
  w.key("node").text_or_null(r.placement.node);
  w.key("lane").value(to_string(r.placement.lane));
  w.key("lanes").value(lane_names(r.placement));
  w.key("gpus").value(r.placement.gpus);
  if (r.placement.share > 0) w.key("gpu_share").value(nlohmann::json(r.placement.share / 1000.0));
  w.key("cpus").value(r.placement.cpus);
  w.key("starting_at").text_or_null(r.starting_at);
  w.key("started_at").text_or_null(r.started_at);
  w.key("ended_at").text_or_null(r.ended_at);
  if (r.duration_s) w.key("duration_s").value(nlohmann::json(*r.duration_s));
  if (r.outcome) {
    w.key("class").value(to_string(r.outcome->cls));
    w.key("exit").value(or_null(r.outcome->exit_code));
    w.key("signal").value(or_null(r.outcome->signal));
    w.key("reason").value(whole_reason(*r.outcome));
    if (!r.outcome->left_running.empty()) w.key("left_running").value(r.outcome->left_running);
    w.key("peak_memory_bytes").value(nlohmann::json(r.outcome->peak_memory_bytes));
    w.key("cpu_s").value(nlohmann::json(static_cast<double>(r.outcome->cpu_ns) / 1e9));
  }
  if (r.git_commit.empty()) {
    w.key("git").value(nlohmann::json());
  } else {
    w.key("git").open('{');
    w.key("commit").value(r.git_commit);
    w.key("dirty").value(nlohmann::json(r.git_dirty));
    w.close('}');
  }
  w.key("files").value(r.files);
  w.key("environment").open('{');
  w.key("set").value(r.env_set);
  w.key("inherited").value(r.env_names);
  w.close('}').close('}');
  return std::move(w).take();
}

std::optional<AttemptRecord> attempt_record_of(const std::string& text) {
  using json = nlohmann::ordered_json;
  const auto text_of = [](const json& j, const char* key) {
    return j.at(key).is_null() ? std::string() : j.at(key).get<std::string>();
  };
  const auto pairs_of = [](const json& j) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& [name, value] : j.items()) out.emplace_back(name, value.get<std::string>());
    return out;
  };
  try {
    const json j = json::parse(text);
    AttemptRecord r;
    r.id = {{j.at("job").get<std::int64_t>()}, j.at("attempt").get<std::int32_t>()};
    r.home = j.value("home", std::string());
    r.sweep = j.at("sweep").get<std::string>();
    r.run = text_of(j, "run");
    r.step = j.at("step").get<std::string>();
    r.argv = j.at("argv").get<std::vector<std::string>>();
    r.cwd = j.at("cwd").get<std::string>();
    r.starting_at = text_of(j, "starting_at");
    if (const json& git = j.at("git"); !git.is_null()) {
      r.git_commit = git.at("commit").get<std::string>();
      r.git_dirty = git.at("dirty").get<bool>();
    }
    r.files = pairs_of(j.at("files"));
    r.env_set = pairs_of(j.at("environment").at("set"));
    r.env_names = j.at("environment").at("inherited").get<std::vector<std::string>>();
    return r;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace pergpu
