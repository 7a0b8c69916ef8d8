// NaN is what a diverged training writes (Python's json does so), and it must be seen: the three
// words that JSON lacks are read as strings before the line is given to the parser.
#include "view/model/metrics.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "json_text.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

/// The line with NaN, Infinity and -Infinity outside of strings put in quotes.
std::string quote_non_numbers(std::string_view line) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < line.size()) out += line[++i];
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    std::string_view word;
    for (const std::string_view candidate : {"NaN", "-Infinity", "Infinity"}) {
      if (line.substr(i).starts_with(candidate)) word = candidate;
    }
    if (word.empty()) {
      out += c;
    } else {
      out.append("\"").append(word == "NaN" ? "nan" : word[0] == '-' ? "-inf" : "inf").append("\"");
      i += word.size() - 1;
    }
  }
  return out;
}

}  // namespace

Metrics metrics_of_line(std::string_view line) {
  using Json = nlohmann::ordered_json;
  const Json values = Json::parse(quote_non_numbers(line), nullptr, false);
  Metrics metrics;
  if (!values.is_object()) return metrics;
  for (const auto& [name, value] : values.items()) {
    if (value.is_string()) {
      metrics.emplace_back(name, value.get<std::string>());
    } else if (value.is_number_integer()) {
      metrics.emplace_back(name, value.dump());
    } else if (value.is_number()) {
      metrics.emplace_back(name, number_text(value.get<double>()));
    } else if (value.is_boolean()) {
      metrics.emplace_back(name, value.get<bool>() ? "true" : "false");
    }
  }
  return metrics;
}

Metrics exact_metrics_of_line(std::string_view line) {
  using Json = nlohmann::ordered_json;
  const Json values = Json::parse(quote_non_numbers(line), nullptr, false);
  Metrics metrics;
  if (!values.is_object()) return metrics;
  for (const auto& [name, value] : values.items()) {
    if (value.is_structured() || value.is_null()) continue;
    metrics.emplace_back(name, json_text(value));
  }
  return metrics;
}

std::string metrics_text(const Metrics& metrics) {
  std::string out;
  for (const auto& [name, text] : metrics) {
    if (!out.empty()) out += ", ";
    out.append(name).append(" ").append(text);
  }
  return out;
}

}  // namespace pergpu::view
