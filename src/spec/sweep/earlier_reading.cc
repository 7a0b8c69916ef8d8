// The JSON was RFC 8785 to the letter, and a text was kept where it differed from that.
#include "spec/sweep/earlier_reading.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/text/canonical_json.h"
#include "spec/text/json_members.h"
#include "spec/text/number_text.h"

namespace pergpu {
namespace {

struct Member {
  std::string name = {};
  std::string json = {};
  std::string text = {};  // as written; "" where that is the JSON's rendering
};

std::string as_string(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

bool is_exact_double(std::string_view digits) {
  const std::int64_t value = to_integer(digits);
  return value <= kMaxExactInteger && value >= -kMaxExactInteger;
}

void read_number(Member& m) {
  if (looks_like_json_integer(m.json)) {
    // Of words such a one stayed a string; of files it was refused.
    if (!is_exact_double(m.json)) m.json = as_string(m.json);
    return;
  }
  const std::string written = m.text.empty() ? m.json : m.text;
  m.json = canonical_number(to_double(m.json));
  m.text = written == m.json ? std::string() : written;
}

void read_string(Member& m) {
  const std::string word = decode_json_string(m.json);
  if (!looks_like_json_number(word)) return;
  const double value = to_double(word);
  const bool is_exact =
      looks_like_json_integer(word) ? is_exact_double(word) : value < 1e308 && value > -1e308;
  if (!is_exact) return;
  m.json = canonical_number(value);
  m.text = word == m.json ? std::string() : word;
}

/// True and null of words; those of files had the same JSON as now.
void read_literal(Member& m, bool of_words) {
  const bool was_string = m.json == "null" ? of_words : !m.text.empty();
  if (!was_string) return;
  m.json = as_string(m.text.empty() ? m.json : m.text);
  m.text.clear();
}

Result<void> read_earlier(Member& m, bool of_words) {
  switch (m.json[0]) {
    case '"':
      if (of_words) read_string(m);
      return {};
    case 't':
    case 'f':
    case 'n':
      read_literal(m, of_words);
      return {};
    case '[':
    case '{': {
      Result<std::string> canonical = canonicalise(m.json);
      if (!canonical) return std::move(canonical).error();
      m.json = *std::move(canonical);
      return {};
    }
    default:
      read_number(m);
      return {};
  }
}

void append_member(std::string& to, const Member& m, std::string_view value) {
  to += to.empty() ? '{' : ',';
  append_json_string(to, m.name);
  to += ':';
  to += value;
}

}  // namespace

Result<RunSpec> earlier_reading(const RunSpec& run, bool of_words) {
  std::vector<Member> members;
  Result<void> read = visit_members(run.json, [&](std::string&& name, std::string_view value) {
    members.push_back({.name = std::move(name), .json = std::string(value)});
  });
  if (read && !run.texts.empty()) {
    read = visit_members(run.texts, [&](std::string&& name, std::string_view value) {
      for (Member& m : members)
        if (m.name == name && value[0] == '"') m.text = decode_json_string(value);
    });
  }
  if (!read) return std::move(read).error();
  RunSpec out{.json = {}};
  for (Member& m : members) {
    if (Result<void> earlier = read_earlier(m, of_words); !earlier)
      return std::move(earlier).error();
    append_member(out.json, m, m.json);
    if (!m.text.empty()) append_member(out.texts, m, as_string(m.text));
  }
  out.json += out.json.empty() ? "{}" : "}";
  if (!out.texts.empty()) out.texts += '}';
  return out;
}

}  // namespace pergpu
