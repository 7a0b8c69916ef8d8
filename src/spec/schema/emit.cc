// Runs are looked at as a table of (value, text) per parameter.  When the differing parameters, in
// the order of SweepSpec::columns, are exactly an odometer over their values, the table is a
// [grid].
#include "spec/schema/emit.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/gpu_parts.h"
#include "spec/readers/readers.h"
#include "spec/runs/param_value.h"
#include "spec/schema/limit_keys.h"
#include "spec/schema/load.h"
#include "spec/schema/slurm_keys.h"
#include "spec/templates/path_text.h"
#include "spec/text/json_members.h"
#include "spec/text/number_text.h"
#include "spec/text/toml_text.h"
#include "spec/text/units.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {
namespace {

struct Value {
  std::string json = {};
  std::string text = {};
  bool operator==(const Value&) const = default;
};
using Row = std::vector<std::pair<std::string, Value>>;

const Value* find(const Row& row, std::string_view name) {
  for (const auto& [key, value] : row)
    if (key == name) return &value;
  return nullptr;
}

Result<Row> row_of(const RunSpec& run) {
  Row row;
  Result<void> read = visit_members(run.json, [&](std::string&& name, std::string_view value) {
    row.emplace_back(std::move(name), Value{std::string(value), {}});
  });
  if (!read) return std::move(read).error();
  if (run.texts.empty()) return row;
  read = visit_members(run.texts, [&](std::string&& name, std::string_view value) {
    for (auto& [key, v] : row)
      if (key == name && value[0] == '"') v.text = decode_json_string(value);
  });
  if (!read) return std::move(read).error();
  return row;
}

class Emitter {
 public:
  explicit Emitter(const SweepSpec& sweep) : sweep_(sweep) {}

  Result<std::string> emit() {
    line("name", toml_string(sweep_.name));
    if (!sweep_.out.empty()) line("out", path_string(sweep_.out));
    Result<void> runs = emit_runs();
    if (!runs) return std::move(runs).error();
    if (!sweep_.limits.empty()) {
      out_ += "\n[limits]\n";
      for (const auto& [name, value] : sweep_.limits) line(toml_key(name), std::to_string(value));
    }
    for (const NotifySpec& table : sweep_.notify) emit_notify(table);
    for (const StepSpec& step : sweep_.steps) emit_step(step);
    return std::move(out_);
  }

 private:
  void line(std::string_view key, std::string_view value) {
    out_ += fmt::format("{} = {}\n", key, value);
  }

  /// A text as written is kept where TOML reads it as the same value.
  Result<std::string> literal(const std::string& name, const Value& v) {
    if (!v.text.empty()) {
      Report unused;
      unused.add_source("", "");
      const std::optional<Node> node = read_toml_value(v.text, {});
      const std::optional<ParamValue> value =
          node ? param_value(unused, name, *node) : std::nullopt;
      if (value && value->json == v.json && value->text == v.text) return v.text;
      return Error{ErrorKind::Invalid, 0,
                   fmt::format("parameter `{}`: TOML has no `{}`; write {} or \"{}\"", name, v.text,
                               v.json, v.text)};
    }
    if (looks_like_json_integer(v.json) && std::to_string(to_integer(v.json)) != v.json)
      return Error{ErrorKind::Invalid, 0,
                   fmt::format("parameter `{}`: {} doesn't fit TOML's 64-bit integers; put it in "
                               "quotes, or write the sweep in YAML or JSON",
                               name, v.json)};
    return toml_value(nlohmann::json::parse(v.json));
  }

  Result<void> emit_pairs(const Row& row) {
    for (const auto& [name, value] : row) {
      Result<std::string> text = literal(name, value);
      if (!text) return std::move(text).error();
      line(toml_key(name), *text);
    }
    return {};
  }

  Result<void> emit_runs() {
    for (const RunSpec& run : sweep_.runs) {
      Result<Row> row = row_of(run);
      if (!row) return std::move(row).error();
      rows_.push_back(*std::move(row));
    }
    if (rows_.empty()) return {};
    Row constants;
    for (const auto& [name, value] : rows_[0]) {
      const std::string& wanted = name;
      const Value& same = value;
      bool differs =
          std::find(sweep_.columns.begin(), sweep_.columns.end(), name) != sweep_.columns.end() ||
          std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
            const Value* other = find(row, wanted);
            return other == nullptr || *other != same;
          });
      if (!differs) constants.emplace_back(name, value);
    }
    Result<void> done = emit_grid(constants) ? Result<void>() : emit_rows(constants);
    if (!done) return done;
    if (!failed_.empty()) return Error{ErrorKind::Invalid, 0, failed_};
    if (constants.empty()) return {};
    out_ += "\n[constants]\n";
    return emit_pairs(constants);
  }

  /// False, with nothing written, when the runs are no product.
  bool emit_grid(const Row& constants) {
    if (sweep_.columns.empty()) return rows_.size() == 1 && rows_[0].size() == constants.size();
    std::vector<std::vector<Value>> lists(sweep_.columns.size());
    for (const Row& row : rows_) {
      if (row.size() != sweep_.columns.size() + constants.size()) return false;
      for (std::size_t c = 0; c < lists.size(); ++c) {
        const Value* value = find(row, sweep_.columns[c]);
        if (value == nullptr) return false;
        bool known = std::find(lists[c].begin(), lists[c].end(), *value) != lists[c].end();
        if (!known) lists[c].push_back(*value);
        if (lists[c].size() > rows_.size() / 2 && lists.size() > 1) return false;
      }
    }
    std::size_t count = 1;
    for (const std::vector<Value>& list : lists) {
      count *= list.size();
      if (count > rows_.size()) return false;
    }
    if (count != rows_.size()) return false;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::size_t rest = i;
      for (std::size_t c = lists.size(); c-- > 0;) {
        if (*find(rows_[i], sweep_.columns[c]) != lists[c][rest % lists[c].size()]) return false;
        rest /= lists[c].size();
      }
    }
    out_ += "\n[grid]\n";
    for (std::size_t c = 0; c < lists.size(); ++c) {
      std::string list;
      for (const Value& value : lists[c]) {
        Result<std::string> text = literal(sweep_.columns[c], value);
        if (!text) failed_ = text.error().message;
        if (text) list += (list.empty() ? "" : ", ") + *text;
      }
      line(toml_key(sweep_.columns[c]), "[" + list + "]");
    }
    return true;
  }

  Result<void> emit_rows(const Row& constants) {
    for (const Row& row : rows_) {
      Row own;
      for (const std::string& column : sweep_.columns)
        if (const Value* value = find(row, column)) own.emplace_back(column, *value);
      for (const auto& [name, value] : row)
        if (find(own, name) == nullptr && find(constants, name) == nullptr)
          own.emplace_back(name, value);
      out_ += "\n[[runs]]\n";
      Result<void> written = emit_pairs(own);
      if (!written) return written;
    }
    return {};
  }

  void emit_notify(const NotifySpec& n) {
    out_ += "\n[[notify]]\n";
    std::vector<std::string> on;
    if (n.on_failure) on.emplace_back("failure");
    if (n.on_hold) on.emplace_back("hold");
    if (n.on_end) on.emplace_back("end");
    if (on.size() < 3) line("on", toml_strings(on));
    if (!n.command.empty()) line("command", toml_strings(n.command));
    if (!n.webhook.empty()) line("webhook", toml_string(n.webhook));
    if (!n.ntfy.empty()) line("ntfy", toml_string(n.ntfy));
    if (!n.slack.empty()) line("slack", toml_string(n.slack));
    if (!n.token.empty()) line("token", toml_string(n.token));
    if (n.timeout != kUsualHookTime) line("timeout", toml_string(format_duration(n.timeout)));
  }

  void emit_step(const StepSpec& s) {
    const StepSpec normal;
    out_ += fmt::format("\n[steps.{}]\n", toml_key(s.name));
    auto text = [&](std::string_view key, const std::string& value, const std::string& usual) {
      if (value != usual) line(key, toml_string(value));
    };
    auto flag = [&](std::string_view key, bool value, bool usual) {
      if (value != usual) line(key, value ? "true" : "false");
    };
    auto number = [&](std::string_view key, int value, int usual) {
      if (value != usual) line(key, std::to_string(value));
    };
    auto time = [&](std::string_view key, std::chrono::milliseconds value) {
      line(key, toml_string(format_duration(value)));
    };
    flag("once", s.once, false);
    if (!s.needs.empty()) line("needs", toml_strings(need_texts(s)));
    if (!s.command.empty()) line("command", toml_strings(s.command));
    text("shell", s.shell, {});
    if (s.gpu_auto) {
      line("gpus", "\"auto\"");
    } else if (s.gpu_share > 0) {
      line("gpus", share_text(s.gpu_share));
    } else {
      number("gpus", s.gpus, 0);
    }
    text("gpu", s.gpu, {});
    if (s.sharing != Sharing::Time) {
      line("sharing", fmt::format("\"{}\"", to_string(s.sharing)));
    }
    if (s.outsiders != Outsiders::Avoid) {
      line("foreign_processes", fmt::format("\"{}\"", to_string(s.outsiders)));
    }
    if (s.cpus) line("cpus", std::to_string(*s.cpus));
    if (s.memory_bytes) line("memory", toml_string(format_size(*s.memory_bytes)));
    if (s.gpu_memory_bytes) line("gpu_memory", toml_string(format_size(*s.gpu_memory_bytes)));
    flag("overcommit", s.overcommit, false);
    if (s.timeout) time("timeout", *s.timeout);
    if (s.idle_timeout) time("idle_timeout", *s.idle_timeout);
    if (s.stall) time("stall", *s.stall);
    if (s.signal) line("signal", toml_string(signal_text(*s.signal)));
    if (s.grace != normal.grace) time("grace", s.grace);
    if (s.retries != normal.retries) line("retries", retries_text(s.retries));
    if (s.grow != normal.grow) line("grow", growth_text(s.grow));
    flag("rerun", s.rerun, true);
    number("breaker", s.breaker, normal.breaker);
    if (!s.failures.empty()) line("failures", failures_text(s.failures));
    if (s.max_parallel) line("max_parallel", std::to_string(*s.max_parallel));
    if (!s.uses.empty()) line("uses", toml_strings(s.uses));
    if (s.max_starting) line("max_starting", std::to_string(*s.max_starting));
    if (s.ready != normal.ready) time("ready", s.ready);
    number("priority", s.priority, 0);
    number("weight", s.weight, 0);
    text("expect", s.expect, {});
    if (!s.env.empty()) line("env", env_text(s));
    if (s.env_pass) line("env_pass", toml_strings(*s.env_pass));
    if (!s.cwd.empty()) line("cwd", path_string(s.cwd));
    if (s.gpu_env == GpuEnv::Index) line("gpu_env", "\"index\"");
    if (!s.snapshot.empty()) line("snapshot", path_strings(s.snapshot));
    if (!s.outputs.empty()) line("outputs", path_strings(s.outputs));
    if (s.metrics != normal.metrics) line("metrics", path_string(s.metrics));
    if (s.slurm != normal.slurm) line("slurm", slurm_text(s.slurm));
    if (s.fake != normal.fake) line("fake", fake_text(s.fake));
  }

  std::vector<std::string> need_texts(const StepSpec& s) const {
    std::vector<std::string> out;
    for (const Need& need : s.needs) {
      std::string name = sweep_.steps[static_cast<std::size_t>(need.step)].name;
      switch (need.scope) {
        case Need::Scope::SameRun:
          break;
        case Need::Scope::All:
          name += ":all";
          break;
        case Need::Scope::Ended:
          name += ":ended";
          break;
      }
      out.push_back(std::move(name));
    }
    return out;
  }

  static std::string failures_text(const std::vector<FailureRule>& rules) {
    std::string out;
    for (const FailureRule& rule : rules) {
      out += fmt::format("{}{{ match = {}, class = {} }}", out.empty() ? "" : ", ",
                         toml_string(rule.match), toml_string(std::string(to_string(rule.cls))));
    }
    return "[" + out + "]";
  }

  static std::string retries_text(const RetryPolicy& r) {
    const RetryPolicy normal;
    if (r.on.empty() && r.delay == normal.delay) return std::to_string(r.max);
    std::string out = fmt::format("{{ max = {}", r.max);
    std::vector<std::string> on;
    for (OutcomeClass cls : r.on) on.emplace_back(to_string(cls));
    if (!on.empty()) out += ", on = " + toml_strings(on);
    if (r.delay != normal.delay) out += ", delay = " + toml_string(format_duration(r.delay));
    return out + " }";
  }

  static std::string growth_text(const Growth& grow) {
    std::string out;
    if (grow.memory != 0) out = fmt::format("memory = {}", grow.memory);
    if (grow.gpu_memory != 0)
      out += fmt::format("{}gpu_memory = {}", out.empty() ? "" : ", ", grow.gpu_memory);
    return "{ " + out + " }";
  }

  static std::string env_text(const StepSpec& s) {
    std::string out;
    for (const auto& [name, value] : s.env)
      out += fmt::format("{} {} = {}", out.empty() ? "" : ",", name, path_string(value));
    return "{" + out + " }";
  }

  /// Of a key in which variables stand for something.
  static std::string path_string(const std::string& text) {
    return toml_string(without_variables(text));
  }
  static std::string path_strings(std::vector<std::string> texts) {
    for (std::string& text : texts) text = without_variables(text);
    return toml_strings(texts);
  }

  static std::string fake_text(const FakeRun& fake) {
    std::string out;
    if (!fake.duration.empty()) out += fmt::format(" duration = {}", toml_string(fake.duration));
    if (!fake.exit.empty()) {
      bool digits = fake.exit.find_first_not_of("0123456789") == std::string::npos;
      out += fmt::format("{} exit = {}", out.empty() ? "" : ",",
                         digits ? fake.exit : toml_string(fake.exit));
    }
    return "{" + out + " }";
  }

  const SweepSpec& sweep_;
  std::vector<Row> rows_;
  std::string failed_;
  std::string out_;
};

}  // namespace

Result<std::string> emit_toml(const SweepSpec& sweep) {
  Result<std::string> text = Emitter(sweep).emit();
  if (!text) return text;
  ParsedSweep back = parse_sweep(*text, SweepFormat::Toml, "emitted.toml");
  if (!back.sweep)
    return Error{ErrorKind::Invalid, 0,
                 "can't write this sweep as TOML:\n" + to_text(back.diagnostics)};
  back.sweep->file = sweep.file;
  back.sweep->folder = sweep.folder;
  if (*back.sweep != sweep)
    return Error{ErrorKind::Invalid, 0,
                 "can't write this sweep as TOML without changing its values"};
  return text;
}

}  // namespace pergpu
