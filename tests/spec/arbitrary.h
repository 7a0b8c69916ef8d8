// Generators for property tests: texts with everything that breaks quoting, JSON values, sweeps.
#pragma once

#include <rapidcheck.h>

#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spec/sweep/sweep.h"
#include "spec/templates/output_pattern.h"
#include "spec/templates/placeholders.h"
#include "spec/text/canonical_json.h"

namespace pergpu {

/// Valid UTF-8 without NUL: quotes, backslashes, braces, spaces, controls, several planes.
inline rc::Gen<std::string> arbitrary_text() {
  auto piece = rc::gen::elementOf(std::vector<std::string>{
      "a",  "B", "7",  "_", "-", ".",  "/",      " ",    "\t",   "\n",  "\r",
      "\"", "'", "\\", "{", "}", "{{", "}}",     "$",    "`",    "*",   "|",
      "=",  ",", "#",  "é", "€", "😀",  "\uFB33", "\x01", "\x7F", "1e-4"});
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& p : pieces) text += p;
                        return text;
                      });
}

/// A text that renders to itself: braces doubled.
inline rc::Gen<std::string> arbitrary_template() {
  return rc::gen::map(arbitrary_text(), [](const std::string& text) {
    std::string out;
    for (char c : text) {
      out += c;
      if (c == '{' || c == '}') out += c;
    }
    return out;
  });
}

inline rc::Gen<std::string> arbitrary_identifier() {
  auto letter = rc::gen::elementOf(std::string("abcxyzLR_"));
  return rc::gen::map(
      rc::gen::resize(6, rc::gen::nonEmpty(rc::gen::container<std::string>(letter))),
      // No built-in begins like this, and no two differ only in case.
      [](std::string name) {
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return "p_" + name;
      });
}

inline rc::Gen<double> arbitrary_number() {
  return rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange<std::int64_t>(-(1LL << 53), 1LL << 53),
                   [](std::int64_t n) { return static_cast<double>(n); }),
      rc::gen::map(rc::gen::inRange(-1000, 1000), [](int n) { return static_cast<double>(n); }),
      rc::gen::suchThat(rc::gen::arbitrary<double>(),
                        [](double d) { return std::isfinite(d) && std::fabs(d) < 9e15; }));
}

inline rc::Gen<nlohmann::json> arbitrary_json(int depth) {
  auto scalar = rc::gen::oneOf(
      rc::gen::map(arbitrary_text(), [](std::string t) { return nlohmann::json(std::move(t)); }),
      rc::gen::map(arbitrary_number(), [](double d) { return nlohmann::json(d); }),
      rc::gen::map(rc::gen::arbitrary<bool>(), [](bool b) { return nlohmann::json(b); }));
  if (depth == 0) return scalar;
  auto inner = rc::gen::resize(
      4, rc::gen::container<std::vector<nlohmann::json>>(arbitrary_json(depth - 1)));
  return rc::gen::oneOf(
      scalar,
      rc::gen::map(inner,
                   [](std::vector<nlohmann::json> v) { return nlohmann::json(std::move(v)); }),
      rc::gen::map(
          rc::gen::pair(inner, rc::gen::container<std::vector<std::string>>(arbitrary_text())),
          [](const std::pair<std::vector<nlohmann::json>, std::vector<std::string>>& p) {
            nlohmann::json object = nlohmann::json::object();
            for (std::size_t i = 0; i < p.first.size() && i < p.second.size(); ++i)
              object[p.second[i]] = p.first[i];
            return object;
          }));
}

/// A sweep as a sweep file could have given it: names that are allowed, rows that differ.
inline rc::Gen<SweepSpec> arbitrary_sweep() {
  return rc::gen::exec([] {
    SweepSpec sweep;
    sweep.name = "s" + *arbitrary_identifier();
    sweep.folder = "/tmp/" + *arbitrary_identifier();
    if (*rc::gen::arbitrary<bool>()) sweep.out = "o" + *arbitrary_identifier();
    sweep.limits = {{"license", *rc::gen::inRange(1, 9)}, {"disk-2", 1}};
    int columns = *rc::gen::inRange(1, 4);
    int rows = *rc::gen::inRange(1, 5);
    std::vector<nlohmann::json> runs(static_cast<std::size_t>(rows), nlohmann::json::object());
    for (int c = 0; c < columns; ++c) {
      // "a0", "a1": sorted by name, as the columns of a JSON object are.
      std::string name = "a" + std::to_string(c);
      for (std::size_t r = 0; r < runs.size(); ++r)
        runs[r][name] = c == 0 ? nlohmann::json(static_cast<double>(r)) : *arbitrary_json(2);
      bool differs = false;
      for (const nlohmann::json& run : runs)
        differs |= canonical_json(run[name]) != canonical_json(runs[0][name]);
      if (differs) sweep.columns.push_back(name);
    }
    for (const nlohmann::json& run : runs) sweep.runs.push_back({.json = canonical_json(run)});
    if (*rc::gen::arbitrary<bool>())
      sweep.notify.push_back(
          {.on_hold = *rc::gen::arbitrary<bool>(),
           .webhook = "https://example.org/\"x\"",
           .ntfy = *rc::gen::elementOf(std::vector<std::string>{"", "topic", "$NTFY"}),
           .token = *rc::gen::elementOf(std::vector<std::string>{"", "$TOKEN"})});
    if (*rc::gen::arbitrary<bool>())
      sweep.notify.push_back({.on_failure = *rc::gen::arbitrary<bool>(),
                              .command = {"hook", *arbitrary_template()},
                              .slack = *rc::gen::elementOf(std::vector<std::string>{"", "$SLACK"}),
                              .timeout = std::chrono::milliseconds(*rc::gen::inRange(1, 600'000))});
    int steps = *rc::gen::inRange(1, 4);
    for (int i = 0; i < steps; ++i) {
      StepSpec s;
      s.name = "step_" + std::to_string(i);
      s.once = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) {
        s.command = {"program"};
        for (const std::string& t :
             *rc::gen::container<std::vector<std::string>>(arbitrary_template()))
          s.command.push_back(t);
        if (!s.once) s.command.push_back("{a0}");
      } else {
        s.shell = "echo $A | cat";
      }
      for (int n = 0; n < i; ++n)
        if (*rc::gen::arbitrary<bool>())
          s.needs.push_back({.step = n,
                             .scope = *rc::gen::elementOf(
                                 std::vector<Need::Scope>{Need::Scope::All, Need::Scope::Ended})});
      s.gpus = *rc::gen::element(0, 1, 2, 8);
      if (s.gpus == 1) s.gpu_share = *rc::gen::element(0, 10, 250, 333, 990);
      if (s.gpus > 0) s.gpu = *rc::gen::elementOf(std::vector<std::string>{"", "*H100*"});
      if (s.gpu_share > 0 && *rc::gen::arbitrary<bool>()) s.sharing = Sharing::Mps;
      if (s.gpus == 1 && *rc::gen::arbitrary<bool>()) s.sharing = Sharing::Mig;
      s.outsiders =
          *rc::gen::elementOf(std::vector<Outsiders>{Outsiders::Avoid, Outsiders::Ignore});
      if (*rc::gen::arbitrary<bool>()) s.cpus = *rc::gen::inRange(1, 64);
      if (*rc::gen::arbitrary<bool>())
        s.memory_bytes = *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 50);
      s.overcommit = *rc::gen::arbitrary<bool>();
      if (s.gpus > 0 && *rc::gen::arbitrary<bool>())
        s.gpu_memory_bytes = *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 40);
      if (s.gpu_memory_bytes && *rc::gen::arbitrary<bool>()) s.outsiders = Outsiders::Fit;
      auto time = [] {
        return std::chrono::milliseconds(*rc::gen::inRange<std::int64_t>(1, 1LL << 40));
      };
      if (*rc::gen::arbitrary<bool>()) s.timeout = time();
      if (*rc::gen::arbitrary<bool>()) s.idle_timeout = time();
      if (*rc::gen::arbitrary<bool>()) s.stall = time();
      if (*rc::gen::arbitrary<bool>())
        s.signal = {.number = *rc::gen::element(1, 2, 10, 15),
                    .ahead = s.timeout ? std::min(time(), *s.timeout / 2) : time()};
      if (s.signal && s.signal->ahead.count() == 0) s.signal.reset();
      s.grace = time();
      s.ready = time();
      s.retries.max = *rc::gen::inRange(0, 5);
      if (*rc::gen::arbitrary<bool>()) s.retries.on = {OutcomeClass::OomHost, OutcomeClass::Lost};
      if (*rc::gen::arbitrary<bool>()) s.retries.delay = time();
      if (s.retries.max > 0 && s.memory_bytes) s.grow.memory = *rc::gen::element(0.0, 1.5, 2.0);
      if (s.retries.max > 0 && s.gpu_memory_bytes)
        s.grow.gpu_memory = *rc::gen::element(0.0, 1.25, 10.0);
      s.breaker = *rc::gen::inRange(0, 5);
      if (*rc::gen::arbitrary<bool>()) s.failures = {{"loss is \"nan\"", OutcomeClass::UserError}};
      s.rerun = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) s.max_parallel = *rc::gen::inRange(1, 9);
      if (*rc::gen::arbitrary<bool>()) s.uses = {"license"};
      if (*rc::gen::arbitrary<bool>()) s.max_starting = *rc::gen::inRange(1, 9);
      s.priority = *rc::gen::inRange(-9, 9);
      if (*rc::gen::arbitrary<bool>()) s.expect = "40m";
      if (*rc::gen::arbitrary<bool>())
        s.env = {{"B", *arbitrary_template()}, {"A", *arbitrary_template()}};
      if (*rc::gen::arbitrary<bool>()) s.env_pass = std::vector<std::string>{"HOME", "WANDB_*"};
      if (*rc::gen::arbitrary<bool>()) s.cwd = "w" + *arbitrary_template();
      // One folder: a pattern is refused.
      std::erase_if(s.cwd, [](char c) { return c == '*' || c == '?' || c == '['; });
      s.gpu_env = *rc::gen::elementOf(std::vector<GpuEnv>{GpuEnv::Uuid, GpuEnv::Index});
      if (s.sharing == Sharing::Mps) s.gpu_env = GpuEnv::Uuid;
      if (*rc::gen::arbitrary<bool>())
        s.outputs = {"{out}/x" +
                     *rc::gen::suchThat(arbitrary_template(), [](const std::string& text) {
                       return why_no_output(text).empty();
                     })};
      if (*rc::gen::arbitrary<bool>()) s.metrics = "{out}/m";
      if (*rc::gen::arbitrary<bool>()) s.fake = {.duration = "2s", .exit = "3"};
      sweep.steps.push_back(std::move(s));
    }
    return sweep;
  });
}

}  // namespace pergpu
