// What is fine takes one line; the others also say why they matter and how to fix them.  Nothing is
// cut: a command has to be copied whole.
#include "view/commands/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "plural.h"
#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr std::array<FindingState, 5> kWorstFirst = {FindingState::Problem, FindingState::Warning,
                                                     FindingState::Unknown, FindingState::Note,
                                                     FindingState::Ok};
constexpr int kStateWidth = 9;   // "problem" and a gap
constexpr int kCheckWidth = 14;  // "compute-mode" and a gap

Tone tone_of(FindingState state) {
  switch (state) {
    case FindingState::Ok:
      return Tone::Good;
    case FindingState::Note:
      return Tone::Dim;
    case FindingState::Unknown:
    case FindingState::Warning:
      return Tone::Warn;
    case FindingState::Problem:
      return Tone::Bad;
  }
  return Tone::Plain;
}

std::string blanks_after(std::string_view text, int width) {
  const int missing = width - columns_of(text);
  return std::string(static_cast<std::size_t>(std::max(missing, 1)), ' ');
}

/// "label  line" for each line of `text`, the label once.
std::string labelled(std::string_view label, std::string_view text) {
  std::string out;
  const auto indent = static_cast<std::size_t>(kStateWidth + kCheckWidth);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += std::string(indent, ' ');
    out += fmt::format("{:<6}{}\n", label, safe_line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    label = "";
  }
  return out;
}

std::int64_t count_of(const std::vector<Finding>& findings, FindingState state) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.state == state; });
}

/// "1 problem", "2 ok".
std::string count_text(std::int64_t count, FindingState state) {
  const std::string_view name = to_string(state);
  const bool is_noun = state != FindingState::Ok && state != FindingState::Unknown;
  return counted(count, name, is_noun ? "" : name);
}

std::string summary(const std::vector<Finding>& findings, const Style& style) {
  std::string out;
  for (const FindingState state : kWorstFirst) {
    const std::int64_t count = count_of(findings, state);
    if (count == 0) continue;
    out += (out.empty() ? "" : ", ") +
           paint(style, is_to_mend(state) ? tone_of(state) : Tone::Plain, count_text(count, state));
  }
  const bool is_fine = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return is_to_mend(finding.state);
  });
  return (is_fine ? "nothing to fix: " : "") + out;
}

}  // namespace

std::string_view to_string(FindingState state) {
  switch (state) {
    case FindingState::Ok:
      return "ok";
    case FindingState::Note:
      return "note";
    case FindingState::Unknown:
      return "unknown";
    case FindingState::Warning:
      return "warning";
    case FindingState::Problem:
      return "problem";
  }
  return "unknown";
}

bool is_to_mend(FindingState state) {
  return state == FindingState::Warning || state == FindingState::Problem;
}

std::string doctor_text(const std::vector<Finding>& findings, const Style& style) {
  std::string out;
  for (const Finding& finding : findings) {
    const std::string_view state = to_string(finding.state);
    out += paint(style, tone_of(finding.state), state) + blanks_after(state, kStateWidth);
    out += safe_line(finding.check) + blanks_after(finding.check, kCheckWidth);
    out += safe_line(finding.what) + "\n";
    if (finding.state == FindingState::Ok) continue;
    out += labelled("why", finding.why) + labelled("fix", finding.mend);
  }
  return out + summary(findings, style) + "\n";
}

json doctor_json(const std::vector<Finding>& findings, const std::vector<Segment>& segments,
                 std::string_view version) {
  json list = json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"state", to_string(finding.state)},
                    {"what", finding.what},
                    {"why", finding.why},
                    {"mend", finding.mend}});
  }
  json counts = json::object();
  for (const FindingState state : kWorstFirst) {
    counts[std::string(to_string(state))] = count_of(findings, state);
  }
  return {{"schema", 1},
          {"version", version},
          {"fine", count_of(findings, FindingState::Warning) == 0 &&
                       count_of(findings, FindingState::Problem) == 0},
          {"counts", std::move(counts)},
          {"findings", std::move(list)},
          {"segments", segments_json(segments)}};
}

}  // namespace pergpu::view
