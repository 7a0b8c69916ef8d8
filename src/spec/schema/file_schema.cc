// Scalars are written out at each key instead of referred to: many editors pass over what stands
// beside a "$ref", and would show no description.
#include "spec/schema/file_schema.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "spec/schema/known_key.h"
#include "spec/schema/schema.h"
#include "spec/schema/step_keys.h"
#include "spec/schema/value_list.h"
#include "spec/templates/placeholders.h"

namespace pergpu {
namespace {

using OrderedJson = nlohmann::ordered_json;

// As spec/text/units.cc reads them.
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

OrderedJson text(std::string_view pattern = {}) {
  OrderedJson out = {{"type", "string"}, {"minLength", 1}};
  if (!pattern.empty()) out["pattern"] = pattern;
  return out;
}

OrderedJson list_of(OrderedJson items, int least = 0) {
  OrderedJson out = {{"type", "array"}};
  if (least > 0) out["minItems"] = least;
  out["items"] = std::move(items);
  return out;
}

OrderedJson table_of(OrderedJson values, OrderedJson names) {
  return {{"type", "object"},
          {"propertyNames", std::move(names)},
          {"additionalProperties", std::move(values)}};
}

OrderedJson refer_to(std::string_view definition) {
  return {{"$ref", fmt::format("#/$defs/{}", definition)}};
}

/// Neither parameters nor steps may be called as a built-in placeholder.
OrderedJson name_of_ours() {
  OrderedJson out = {{"pattern", kIdentifier}};
  std::vector<std::string_view> reserved = builtin_names();
  std::erase_if(reserved,
                [](std::string_view name) { return is_several_words(*builtin_of(name)); });
  out["not"]["enum"] = reserved;
  return out;
}

OrderedJson described(const KnownKey& key);
OrderedJson shape_of(const KeyType& type);

/// A closed table of these keys.
OrderedJson table(const std::vector<KnownKey>& keys) {
  OrderedJson out = {{"type", "object"}, {"properties", OrderedJson::object()}};
  OrderedJson required = OrderedJson::array();
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

OrderedJson shape_of(const KeyType& type) {
  using Kind = KeyType::Kind;
  OrderedJson one = text(type.pattern);
  if (!type.choices.empty()) one = {{"enum", type.choices}};
  switch (type.kind) {
    case Kind::Text:
      return one;
    case Kind::Texts:
      return {{"anyOf", OrderedJson::array({one, list_of(one)})}};
    case Kind::Words: {
      OrderedJson words = list_of({{"type", "string"}}, 1);
      words["prefixItems"] = OrderedJson::array({text()});
      return {{"anyOf", OrderedJson::array({text(), words})}};
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
      OrderedJson out = text(kDuration);
      if (type.not_zero) out["allOf"] = OrderedJson::array({{{"pattern", "[1-9]"}}});
      out["examples"] = OrderedJson::array({"90s", "12h", "1d2h"});
      return out;
    }
    case Kind::Size: {
      OrderedJson out = text(kSize);
      out["examples"] = OrderedJson::array({"64GiB", "500MB"});
      return out;
    }
    case Kind::Variables:
      return table_of({{"type", OrderedJson::array({"string", "number"})}},
                      {{"pattern", kIdentifier}});
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
      OrderedJson name = name_of_ours();
      name["maxLength"] = kMostStepName;
      OrderedJson steps = table_of(refer_to("step"), std::move(name));
      steps["minProperties"] = 1;
      return steps;
    }
  }
  return true;
}

OrderedJson schema_of(const KeyType& type) {
  OrderedJson any = OrderedJson::array({shape_of(type)});
  if (type.takes_placeholders) {
    any.push_back(text(kPlaceholder));
    any.back()["examples"] = OrderedJson::array({"{NAME}"});
  }
  if (type.other != nullptr) any.push_back(schema_of(*type.other));
  return any.size() == 1 ? any.front() : OrderedJson{{"anyOf", std::move(any)}};
}

/// The meaning as a sentence, a default without a value as a second one.
OrderedJson described(const KnownKey& key) {
  std::string words(key.meaning);
  const bool is_value = key.usual.starts_with('`') && key.usual.ends_with('`');
  const OrderedJson value =
      is_value ? OrderedJson::parse(key.usual.substr(1, key.usual.size() - 2), nullptr, false)
               : OrderedJson(OrderedJson::value_t::discarded);
  if (value.is_discarded() && !key.usual.empty()) words += fmt::format(". Default: {}", key.usual);
  OrderedJson out = {{"description", std::move(words)}};
  out.update(schema_of(key.type));
  if (!value.is_discarded()) out["default"] = value;
  return out;
}

/// What may stand for a list of [grid] or [zip].
OrderedJson list() {
  // A pattern inside of a list is not the files that match it.
  OrderedJson item = {{"not", {{"type", "object"}, {"required", OrderedJson::array({"glob"})}}}};
  return {{"description", "values, files that match a pattern, or a range of numbers"},
          {"anyOf", OrderedJson::array(
                        {list_of(std::move(item), 1), table(glob_keys()), table(range_keys())})}};
}

OrderedJson step() {
  OrderedJson out = {{"description", "a command to run for each run, or once for the sweep"}};
  out.update(table(step_keys(false)));
  OrderedJson either = OrderedJson::array();
  for (const char* key : {"command", "shell"})
    either.push_back({{"required", OrderedJson::array({key})}});
  out["oneOf"] = std::move(either);
  return out;
}

}  // namespace

std::string sweep_file_schema() {
  OrderedJson out = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
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
