// What the keys of a sweep file are called and what they take, as data.  The parser reads by it:
// names, ranges, choices and the keys of nested tables are nowhere else.  `pergpu schema`
// (spec/schema/file_schema.cc) prints it for editors, and tools/sweep-reference writes
// docs/sweep-file.md from that, so that the three cannot differ.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/text/suggest.h"
#include "spec/tree/typed.h"

namespace pergpu {

struct KnownKey;

/// Which values a key takes.
struct KeyType {
  enum class Kind : std::uint8_t {
    Text,       // not empty
    Texts,      // a list of texts that are not empty, or one of them
    Words,      // a command: a list whose first text is not empty, or one text
    Truth,      //
    Whole,      // from `min` to `max`
    Factor,     // a number above `min`, at most `max`
    Share,      // a number from 0.01 to below 1
    Number,     // any
    Duration,   //
    Size,       //
    Variables,  // a table: names of variables -> strings or numbers
    Table,      // of `members`
    Tables,     // a list of tables of `members`
    // Sections: what is in them is described by more than their own row.
    Lists,     // a table: parameters -> lists (spec/schema/value_list.h)
    Values,    // a table: parameters -> values
    Rows,      // a list of such tables
    Limits,    // a table: names -> whole numbers from `min` to `max`
    Defaults,  // a table of the keys of a step that all steps share
    Steps,     // a table: names -> tables of the keys of a step
  };
  Kind kind = Kind::Text;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::span<const std::string_view> choices = {};  // Text: one of these; none: any
  std::string_view pattern =
      {};                 // Text, each of Texts: a regular expression that editors know it by
  bool not_zero = false;  // Duration
  bool takes_placeholders = false;  // Whole, Duration: or a text with placeholders
  std::vector<KnownKey> (*members)() = nullptr;
  const KeyType* other = nullptr;  // or a value of this type
};

/// One row of the reference.
struct KnownKey {
  std::string_view name = {};
  KeyType type = {};
  /// The default as a reader would write it, in backticks; as a phrase where it is no value; "":
  /// the key does not exist by default.
  std::string_view usual = {};
  /// One sentence, without a capital and a full stop; pages of the documentation as
  /// (docs/failures.md#more-memory).
  std::string_view meaning = {};
  bool required = false;
  /// An earlier name, which is still read; "": it has had none.
  std::string_view earlier = {};

  bool is_called(std::string_view key) const {
    return key == name || (!earlier.empty() && key == earlier);
  }
};

/// Builders for the rows of tables.
namespace takes {

using Kind = KeyType::Kind;

constexpr KeyType text(std::string_view pattern = {}) {
  return {.kind = Kind::Text, .pattern = pattern};
}
constexpr KeyType choice(std::span<const std::string_view> choices) {
  return {.kind = Kind::Text, .choices = choices};
}
constexpr KeyType texts(std::string_view pattern = {}) {
  return {.kind = Kind::Texts, .pattern = pattern};
}
constexpr KeyType whole(std::int64_t min, std::int64_t max) {
  return {.kind = Kind::Whole, .min = min, .max = max};
}
constexpr KeyType duration() { return {.kind = Kind::Duration}; }
constexpr KeyType limit_of_time() { return {.kind = Kind::Duration, .not_zero = true}; }
constexpr KeyType only(Kind kind) { return {.kind = kind}; }
constexpr KeyType table(std::vector<KnownKey> (*members)()) {
  return {.kind = Kind::Table, .members = members};
}
constexpr KeyType tables(std::vector<KnownKey> (*members)()) {
  return {.kind = Kind::Tables, .members = members};
}
constexpr KeyType with_placeholders(KeyType type) {
  type.takes_placeholders = true;
  return type;
}
constexpr KeyType either(KeyType type, const KeyType& other) {
  type.other = &other;
  return type;
}

}  // namespace takes

/// What the reader of a member gets: the value, the type of its row, and what it is read into.
template <typename Target>
struct MemberInput {
  Field field;
  const KeyType& type;
  Target& to;
};

/// A key of a nested table and its reader.
template <typename Target>
struct MemberKey {
  KnownKey known = {};
  void (*read)(const MemberInput<Target>&) = nullptr;
};

template <typename Target, std::size_t N>
std::vector<KnownKey> known_of(const MemberKey<Target> (&rows)[N]) {
  std::vector<KnownKey> out;
  for (const MemberKey<Target>& row : rows) out.push_back(row.known);
  return out;
}

/// Reads each key of a table by its row.  False: some have none, which was reported.
/// REQUIRES: it is a table.
template <typename Target, std::size_t N>
bool read_members(const Field& table, const MemberKey<Target> (&rows)[N], Target& to) {
  bool all_known = true;
  for (std::size_t i = 0; i < table.node.keys.size(); ++i) {
    const Key& key = table.node.keys[i];
    const auto row = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const auto& r) { return r.known.name == key.text; });
    if (row != std::end(rows)) {
      const std::string name = fmt::format("{}.{}", table.key, key.text);
      row->read({{table.report, name, table.node.items[i]}, row->known.type, to});
      continue;
    }
    std::vector<std::string_view> names;
    for (const MemberKey<Target>& r : rows) names.push_back(r.known.name);
    table.report.error(key.at, fmt::format("unknown key `{}` in `{}`{}", key.text, table.key,
                                           did_you_mean(key.text, names)));
    all_known = false;
  }
  return all_known;
}

}  // namespace pergpu
