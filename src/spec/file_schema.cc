// Scalars are written out at each key instead of referred to: many editors pass over what stands
// beside a "$ref", and would show no description.
#include "spec/file_schema.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "spec/known_key.h"
#include "spec/placeholders.h"
#include "spec/schema.h"
#include "spec/step_keys.h"
#include "spec/value_list.h"

namespace pergpu {
namespace {

using json = nlohmann::ordered_json;

// As spec/units.cc reads them.
constexpr std::string_view kDuration =
    "^([0-9]+(\\.[0-9]+)? *(w|weeks?) *)?([0-9]+(\\.[0-9]+)? *(d|days?) *)?"
    "([0-9]+(\\.[0-9]+)? *(h|hrs?|hours?) *)?([0-9]+(\\.[0-9]+)? *(m|mins?|minutes?) *)?"
    "([0-9]+(\\.[0-9]+)? *(s|secs?|seconds?) *)?([0-9]+(\\.[0-9]+)? *ms *)?$"
    "|^[0-9]{1,6}:[0-5][0-9]:[0-5][0-9]$";
constexpr std::string_view kSize = "^[0-9]+(\\.[0-9]+)? *([bB]|[kKmMgGtT]([iI]?[bB])?)$";
constexpr std::string_view kIdentifier = "^[A-Za-z_][A-Za-z0-9_]*$";
constexpr std::string_view kPlaceholder =
    "\\{[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)?\\}";
constexpr std::string_view kLimitName = "^[^/*@= \\t\\r\\n]+$";
constexpr int kMostStepName = 64;

json text(std::string_view pattern = {}) {
  json out = {{"type", "string"}, {"minLength", 1}};
  if (!pattern.empty()) out["pattern"] = pattern;
  return out;
}

json list_of(json items, int least = 0) {
  json out = {{"type", "array"}};
  if (least > 0) out["minItems"] = least;
  out["items"] = std::move(items);
  return out;
}

json table_of(json values, json names) {
  return {{"type", "object"},
          {"propertyNames", std::move(names)},
          {"additionalProperties", std::move(values)}};
}

json refer_to(std::string_view definition) {
  return {{"$ref", fmt::format("#/$defs/{}", definition)}};
}

/// Neither parameters nor steps may be called as a built-in placeholder.
json name_of_ours() {
  json out = {{"pattern", kIdentifier}};
  std::vector<std::string_view> reserved = builtin_names();
  std::erase_if(reserved,
                [](std::string_view name) { return is_several_words(*builtin_of(name)); });
  out["not"]["enum"] = reserved;
  return out;
}

json described(const KnownKey& key);
json shape_of(const KeyType& type);

/// A closed table of these keys.
json table(const std::vector<KnownKey>& keys) {
  json out = {{"type", "object"}, {"properties", json::object()}};
  json required = json::array();
  for (const KnownKey& key : keys) {
    out["properties"][std::string(key.name)] = described(key);
    if (!key.earlier.empty()) {
      out["properties"][std::string(key.earlier)] = {
          {"description", fmt::format("earlier name of `{}`", key.name)}, {"deprecated", true}};
      out["properties"][std::string(key.earlier)].update(shape_of(key.type));
    }
    if (key.required) required.push_back(key.name);
  }
  if (!required.empty()) out["required"] = std::move(required);
  out["additionalProperties"] = false;
  return out;
}

json shape_of(const KeyType& type) {
  using Kind = KeyType::Kind;
  json one = text(type.pattern);
  if (!type.choices.empty()) one = {{"enum", type.choices}};
  switch (type.kind) {
    case Kind::Text:
      return one;
    case Kind::Texts:
      return {{"anyOf", json::array({one, list_of(one)})}};
    case Kind::Words: {
      json words = list_of({{"type", "string"}}, 1);
      words["prefixItems"] = json::array({text()});
      return {{"anyOf", json::array({text(), words})}};
    }
    case Kind::Truth:
      return {{"type", "boolean"}};
    case Kind::Whole:
      return {{"type", "integer"}, {"minimum", type.min}, {"maximum", type.max}};
    case Kind::Factor:
      return {{"type", "number"}, {"exclusiveMinimum", type.min}, {"maximum", type.max}};
    case Kind::Share:
      return {{"type", "number"}, {"minimum", 0.01}, {"exclusiveMaximum", 1}};
    case Kind::Number:
      return {{"type", "number"}};
    case Kind::Duration: {
      json out = text(kDuration);
      if (type.not_zero) out["allOf"] = json::array({{{"pattern", "[1-9]"}}});
      out["examples"] = json::array({"90s", "12h", "1d2h"});
      return out;
    }
    case Kind::Size: {
      json out = text(kSize);
      out["examples"] = json::array({"64GiB", "500MB"});
      return out;
    }
    case Kind::Variables:
      return table_of({{"type", json::array({"string", "number"})}}, {{"pattern", kIdentifier}});
    case Kind::Table:
      return table(type.members());
    case Kind::Tables:
      return list_of(table(type.members()));
    case Kind::Lists:
      return table_of(refer_to("list"), name_of_ours());
    case Kind::Values:
      return table_of(true, name_of_ours());
    case Kind::Rows:
      return list_of(table_of(true, name_of_ours()));
    case Kind::Limits:
      return table_of({{"type", "integer"}, {"minimum", type.min}, {"maximum", type.max}},
                      {{"pattern", kLimitName}});
    case Kind::Defaults:
      return table(step_keys(true));
    case Kind::Steps: {
      json name = name_of_ours();
      name["maxLength"] = kMostStepName;
      json steps = table_of(refer_to("step"), std::move(name));
      steps["minProperties"] = 1;
      return steps;
    }
  }
  return true;
}

json schema_of(const KeyType& type) {
  json any = json::array({shape_of(type)});
  if (type.takes_placeholders) {
    any.push_back(text(kPlaceholder));
    any.back()["examples"] = json::array({"{NAME}"});
  }
  if (type.other != nullptr) any.push_back(schema_of(*type.other));
  return any.size() == 1 ? any.front() : json{{"anyOf", std::move(any)}};
}

/// The meaning as a sentence, a default in words as a second one.
json described(const KnownKey& key) {
  std::string words(key.meaning);
  const bool is_value = key.usual.starts_with('`') && key.usual.ends_with('`');
  const json value = is_value
                         ? json::parse(key.usual.substr(1, key.usual.size() - 2), nullptr, false)
                         : json(json::value_t::discarded);
  if (value.is_discarded() && !key.usual.empty()) words += fmt::format(". Default: {}", key.usual);
  json out = {{"description", std::move(words)}};
  out.update(schema_of(key.type));
  if (!value.is_discarded()) out["default"] = value;
  return out;
}

/// What may stand for a list of [grid] or [zip].
json list() {
  // A pattern inside of a list is not the files that match it.
  json item = {{"not", {{"type", "object"}, {"required", json::array({"glob"})}}}};
  return {{"description", "values, files that match a pattern, or a range of numbers"},
          {"anyOf",
           json::array({list_of(std::move(item), 1), table(glob_keys()), table(range_keys())})}};
}

json step() {
  json out = {{"description", "a command to run for each run, or once for the sweep"}};
  out.update(table(step_keys(false)));
  json either = json::array();
  for (const char* key : {"command", "shell"}) either.push_back({{"required", json::array({key})}});
  out["oneOf"] = std::move(either);
  return out;
}

}  // namespace

std::string sweep_file_schema() {
  json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"$id", "https://pergpu.invalid/schema/1/sweep.json"},
              {"title", "pergpu sweep file"},
              {"description",
               "The runs of a sweep and the steps of each run (docs/sweep-file.md), in TOML, YAML "
               "or JSON."}};
  out.update(table(section_keys()));
  out["$defs"] = {{"list", list()}, {"step", step()}};
  return out.dump(2) + "\n";
}

}  // namespace pergpu
