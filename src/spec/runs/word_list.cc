// Commas within brackets or quotes separate nothing: f(1,2) and [64,64] are one value each.
#include "spec/runs/word_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ascii.h"
#include "spec/readers/readers.h"
#include "spec/text/number_text.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMostValues = 1'000'000;  // as of {from = ..., n = ...}

struct IntegerRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t step = 1;
  std::size_t width = 0;  // of numbers with leading zeros
};

/// The bound at the beginning of `text`, which moves past it.
std::optional<std::string_view> take_bound(std::string_view& text) {
  std::size_t end = !text.empty() && text[0] == '-' ? 1 : 0;
  const std::size_t digits = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  constexpr std::size_t kMostDigits = 18;  // fit in 64 bits
  if (end == digits || end - digits > kMostDigits) return std::nullopt;
  const std::string_view bound = text.substr(0, end);
  text.remove_prefix(end);
  return bound;
}

bool take_dots(std::string_view& text) {
  if (text.substr(0, 2) != "..") return false;
  text.remove_prefix(2);
  return true;
}

bool has_leading_zero(std::string_view bound) {
  if (bound[0] == '-') bound.remove_prefix(1);
  return bound.size() > 1 && bound[0] == '0';
}

std::optional<IntegerRange> integer_range_of(std::string_view text) {
  if (text.size() > 2 && text.front() == '{' && text.back() == '}')
    text = text.substr(1, text.size() - 2);
  const std::optional<std::string_view> from = take_bound(text);
  if (!from || !take_dots(text)) return std::nullopt;
  const std::optional<std::string_view> to = take_bound(text);
  if (!to) return std::nullopt;
  IntegerRange range{.from = to_integer(*from), .to = to_integer(*to)};
  if (!text.empty()) {
    if (!take_dots(text)) return std::nullopt;
    const std::optional<std::string_view> step = take_bound(text);
    if (!step || !text.empty()) return std::nullopt;
    range.step = std::abs(to_integer(*step));
    if (range.step == 0) return std::nullopt;
  }
  if (has_leading_zero(*from) || has_leading_zero(*to))
    range.width = std::max(from->size(), to->size());
  return range;
}

/// "np.logspace(-4,-1,4)": a call that makes a list, in Python, a shell or Hydra.
bool is_call_for_list(std::string_view text) {
  constexpr std::array<std::string_view, 8> kKnown = {
      "range", "arange", "linspace", "logspace", "geomspace", "seq", "choice", "interval"};
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) return false;
  std::string_view name = text.substr(0, open);
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
    name.remove_prefix(dot + 1);
  return std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end();
}

/// "a{1..3}", "a{x,y}": what a shell would have made several words of.
bool has_words_in_braces(std::string_view text) {
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::size_t end = text.find('}', at);
    if (end == std::string_view::npos) return false;
    const std::string_view inner = text.substr(at + 1, end - at - 1);
    const bool is_list = at > 0 && inner.find(',') != std::string_view::npos &&
                         inner.find_first_of("\"':={ ") == std::string_view::npos;
    if (is_list || integer_range_of(inner)) return true;
  }
  return false;
}

/// "0.1..0.5", "0..=3", "0..n", "1…5", "range(4)", "$(seq 3)": meant as a range or a list, and none
/// of those that are known.
bool resembles_range(std::string_view text) {
  constexpr std::string_view kEllipsis = "…";
  if (is_call_for_list(text) || has_words_in_braces(text)) return true;
  if (text.starts_with("$(") || (text.size() > 1 && text.front() == '`' && text.back() == '`'))
    return true;
  if (text == "..." || text == kEllipsis) return true;
  if (const std::size_t at = text.find(kEllipsis); at != std::string_view::npos)
    return looks_like_json_number(text.substr(0, at));
  const std::size_t dots = text.find("..");
  return dots != std::string_view::npos && looks_like_json_number(text.substr(0, dots));
}

/// "1:5", "1-5", "0:1:0.1": whole numbers that grow, or three numbers as MATLAB has them.  Dates
/// (2024-01-05) and times (12:30:00) are no such thing.
bool resembles_slice(std::string_view text) {
  const std::size_t first = text.find_first_of(":-", 1);
  if (first == std::string_view::npos) return false;
  const std::string_view from = text.substr(0, first);
  const std::string_view rest = text.substr(first + 1);
  const std::size_t second = text[first] == ':' ? rest.find(':') : std::string_view::npos;
  if (second != std::string_view::npos)
    return looks_like_json_number(from) && looks_like_json_number(rest.substr(0, second)) &&
           looks_like_json_number(rest.substr(second + 1));
  return looks_like_json_integer(from) && looks_like_json_integer(rest) &&
         to_integer(from) < to_integer(rest);
}

void set_place(Node& node, Place at) {
  node.at = at;
  for (Key& key : node.keys) key.at = at;
  for (Node& item : node.items) set_place(item, at);
}

/// A list, table or text in TOML or JSON.
std::optional<Node> read_written(std::string_view text, Place at) {
  if (std::optional<Node> value = read_toml_value(text, at)) return value;
  Report scratch;
  const std::uint32_t source = scratch.add_source("", std::string(text));
  std::optional<Node> value = read_json_value(scratch, source, text, 0);
  if (!value || scratch.failed()) return std::nullopt;
  set_place(*value, at);
  return value;
}

class Reader {
 public:
  Reader(Report& report, const std::string& name, Place at)
      : report_(report), name_(name), at_(at) {}

  std::optional<Node> list(std::string_view text) {
    const bool is_structure = !text.empty() && (text[0] == '[' || text[0] == '{');
    if (is_structure && !integer_range_of(text))
      if (std::optional<Node> whole = read_written(text, at_)) return whole;
    Node list;
    list.kind = Node::Kind::List;
    list.at = at_;
    const std::optional<std::vector<std::string_view>> parts = split(text);
    if (!parts) return fail(text, "has unbalanced brackets");
    if (parts->size() == 1 && resembles_slice(text))
      return fail(text,
                  fmt::format("is a single string; for a range write {0}=FROM..TO or {0}={{from = "
                              "0.1, to = 0.5, n = 5}}, for the string {0}=[\"{1}\"]",
                              name_, text));
    const bool begins_with_numbers = parts->size() > 2 && looks_like_json_number(parts->front());
    for (std::string_view part : *parts) {
      if (part == ".." && begins_with_numbers) return fail_range(text);
      if (!add(part, list)) return std::nullopt;
    }
    return list;
  }

  std::optional<Node> value(std::string_view text) {
    if (integer_range_of(text) || resembles_range(text)) return list(text);
    if (text.empty()) return typed_text(text, at_);
    if (is_no_json_number(text)) return read_toml_value(text, at_);  // refused where it is used
    if (is_bracket(text[0])) {
      std::optional<Node> written = read_written(text, at_);
      return written ? std::move(written) : fail(text, kNoValue);
    }
    if (is_quote(text[0]))
      if (std::optional<Node> written = read_written(text, at_)) return written;
    if (is_list_of_numbers(text))
      return fail(text, fmt::format("is a string; for a list write {}=[{}]", name_, text));
    return typed_text(text, at_);
  }

 private:
  static constexpr std::string_view kNoValue =
      "isn't a valid TOML or JSON value, where strings need quotes; outside of brackets, words "
      "need no quotes";

  static bool is_bracket(char c) { return c == '[' || c == '{'; }
  static bool is_quote(char c) { return c == '"' || c == '\''; }

  std::optional<Node> fail(std::string_view text, std::string_view why) {
    report_.error(at_, fmt::format("`{}` {}", text, why));
    return std::nullopt;
  }

  std::optional<Node> fail_range(std::string_view text) {
    return fail(
        text,
        fmt::format("isn't a range: 0..3 is 0,1,2,3, and 0..10..5 is 0,5,10. For other numbers "
                    "write {0}={{from = 0.1, to = 0.5, n = 5}}, with scale = \"log\" if you like, "
                    "or the values with commas; for a string write {0}=[\"{1}\"]",
                    name_, text));
  }

  bool add(std::string_view part, Node& list) {
    if (part.empty()) {
      report_.error(
          at_, fmt::format("-g {} has an empty value; for an empty string write {}=[\"\"]", name_,
                           name_));
      return true;  // and look at the others
    }
    if (const std::optional<IntegerRange> range = integer_range_of(part))
      return add_range(*range, part, list);
    if (resembles_range(part)) return fail_range(part).has_value();
    std::optional<Node> value;
    if (is_bracket(part[0]) || is_quote(part[0])) value = read_written(part, at_);
    if (!value && is_bracket(part[0])) return fail(part, kNoValue).has_value();
    list.items.push_back(value ? *std::move(value) : typed_text(part, at_));
    return true;
  }

  bool add_range(const IntegerRange& range, std::string_view part, Node& list) {
    const std::int64_t distance = std::abs(range.to - range.from);
    const std::int64_t count = distance / range.step + 1;
    if (count + static_cast<std::int64_t>(list.items.size()) > kMostValues)
      return fail(part, fmt::format("has more than {} values", kMostValues)).has_value();
    const std::int64_t sign = range.from <= range.to ? 1 : -1;
    for (std::int64_t i = 0; i <= distance; i += range.step) {
      const std::int64_t number = range.from + sign * i;
      const std::string digits =
          range.width > 0 ? fmt::format("{:0{}}", number, range.width) : std::to_string(number);
      list.items.push_back(typed_text(digits, at_));
    }
    return true;
  }

  /// Nothing where `[` and `{` do not match; other brackets may be part of a text.
  static std::optional<std::vector<std::string_view>> split(std::string_view text) {
    std::optional<std::vector<std::string_view>> parts = split_outside(text, "([{", ")]}");
    return parts ? parts : split_outside(text, "[{", "]}");
  }

  static std::optional<std::vector<std::string_view>> split_outside(std::string_view text,
                                                                    std::string_view opening,
                                                                    std::string_view closing) {
    std::vector<std::string_view> parts;
    std::vector<char> open;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      // A quote that begins a value, or stands within brackets, is closed by the next.
      if (is_quote(c) && (i == begin || !open.empty())) {
        const std::size_t end = text.find(c, i + 1);
        if (end != std::string_view::npos) i = end;
      } else if (std::size_t kind = opening.find(c); kind != std::string_view::npos) {
        open.push_back(closing[kind]);
      } else if (closing.find(c) != std::string_view::npos) {
        if (open.empty() || open.back() != c) return std::nullopt;
        open.pop_back();
      } else if (c == ',' && open.empty()) {
        parts.push_back(text.substr(begin, i - begin));
        begin = i + 1;
      }
    }
    if (!open.empty()) return std::nullopt;
    parts.push_back(text.substr(begin));
    return parts;
  }

  /// As a string it would hardly be what the file has a number for.
  static bool is_no_json_number(std::string_view text) {
    if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
    return text == "inf" || text == "nan";
  }

  /// "1e-3,1e-4": several values where one is expected.
  static bool is_list_of_numbers(std::string_view text) {
    if (text.find(',') == std::string_view::npos) return false;
    while (true) {
      const std::size_t comma = std::min(text.find(','), text.size());
      if (number_word(text.substr(0, comma)) == NumberWord::None) return false;
      if (comma == text.size()) return true;
      text.remove_prefix(comma + 1);
    }
  }

  Report& report_;
  const std::string& name_;
  Place at_;
};

}  // namespace

std::optional<Node> read_word_list(Report& report, const std::string& name, std::string_view text,
                                   Place at) {
  return Reader(report, name, at).list(text);
}

std::optional<Node> read_word_value(Report& report, const std::string& name, std::string_view text,
                                    Place at) {
  return Reader(report, name, at).value(text);
}

}  // namespace pergpu
