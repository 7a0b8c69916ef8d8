// What the three readers make of a file: one ordered tree.  Every value and every key knows where
// it stands, scalars keep their text as written, and tables keep the order of the file.  Nothing
// here knows what a sweep is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pergpu {

/// A position in one of the sources of a Report.
struct Place {
  std::uint32_t source = 0;  // Report::source()
  std::uint32_t line = 0;    // from 1; 0: the whole file
  std::uint32_t column = 0;  // from 1, in code points
  bool operator==(const Place&) const = default;
};

struct Key {
  std::string text = {};
  Place at = {};
};

struct Node {
  enum class Kind : std::uint8_t { Null, Bool, Int, Float, String, List, Table };

  Kind kind = Kind::Null;
  bool is_word = false;    // typed by its looks: a CSV cell, a word of the command line
  bool is_broken = false;  // reported: what it says is not what was meant
  Place at = {};
  std::string text = {};         // String: its content; other scalars: as written
  std::int64_t integer = 0;      // Int (saturated), Bool (0 or 1)
  double number = 0;             // Int, Float
  std::vector<Key> keys = {};    // Table: keys[i] names items[i]
  std::vector<Node> items = {};  // List, Table

  bool is(Kind k) const { return kind == k; }
  /// The member called `key` of a table, or null.
  const Node* find(std::string_view key) const {
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (keys[i].text == key) return &items[i];
    return nullptr;
  }
};

/// The keys of a table while it is read.  Short tables are searched, long ones hashed: a map for
/// each of a million rows would cost more than all the rest.
class KeySet {
 public:
  /// The place of an equal key of `table` (whose keys were all added), or null after adding it.
  const Place* add(const Node& table, const Key& key) {
    constexpr std::size_t kMaxSearched = 16;
    if (table.keys.size() < kMaxSearched) {
      for (const Key& other : table.keys)
        if (other.text == key.text) return &other.at;
      return nullptr;
    }
    if (hashed_.empty())
      for (const Key& other : table.keys) hashed_.emplace(other.text, other.at);
    auto [found, is_new] = hashed_.emplace(key.text, key.at);
    return is_new ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::string, Place> hashed_;
};

/// "the number 90", "the string \"x\"", "a list": for "must be a duration, not …".
std::string describe(const Node& node);

}  // namespace pergpu
