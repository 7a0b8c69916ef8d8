// A NUL byte ends a C string: in a text that reaches a command or a path it would cut the rest off
// silently, so it is refused here for all of them.
#include "spec/tree/typed.h"

#include <fmt/core.h>

#include "spec/text/suggest.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

/// Without the text itself, which the message already shows as part of the line.
std::string reason_of(const Error& error) {
  std::size_t colon = error.message.find("\": ");
  return colon == std::string::npos ? error.message : error.message.substr(colon + 3);
}

bool has_nul(const Field& f) {
  if (f.node.text.find('\0') == std::string::npos) return false;
  f.report.error(
      f.node.at,
      fmt::format("`{}` contains a NUL character, which can't be passed to a program", f.key));
  return true;
}

}  // namespace

void wrong_type(const Field& f, std::string_view expected) {
  if (f.node.is_broken) return;  // its type is a guess
  f.report.error(f.node.at,
                 fmt::format("`{}` must be {}, not {}", f.key, expected, describe(f.node)));
}

std::optional<std::string> read_text(const Field& f) {
  if (!f.node.is(Node::Kind::String)) {
    bool scalar =
        f.node.is(Node::Kind::Int) || f.node.is(Node::Kind::Float) || f.node.is(Node::Kind::Bool);
    wrong_type(f, scalar ? "a string (in quotes)" : "a string");
    return std::nullopt;
  }
  if (has_nul(f)) return std::nullopt;
  return f.node.text;
}

std::optional<std::string> read_nonempty_text(const Field& f) {
  std::optional<std::string> text = read_text(f);
  if (text && text->empty()) {
    f.report.error(f.node.at, fmt::format("`{}` is empty", f.key));
    return std::nullopt;
  }
  return text;
}

std::optional<bool> read_truth(const Field& f) {
  if (!f.node.is(Node::Kind::Bool)) {
    wrong_type(f, "true or false");
    return std::nullopt;
  }
  return f.node.integer != 0;
}

std::optional<std::int64_t> read_whole(const Field& f, std::int64_t min, std::int64_t max) {
  if (!f.node.is(Node::Kind::Int)) {
    wrong_type(f, "a whole number");
    return std::nullopt;
  }
  if (f.node.integer < min || f.node.integer > max) {
    f.report.error(f.node.at,
                   fmt::format("`{}` must be from {} to {}, not {}", f.key, min, max, f.node.text));
    return std::nullopt;
  }
  return f.node.integer;
}

std::optional<std::chrono::milliseconds> read_duration(const Field& f) {
  if (!f.node.is(Node::Kind::String) && !f.node.is(Node::Kind::Int) &&
      !f.node.is(Node::Kind::Float)) {
    wrong_type(f, "a duration like \"12h\"");
    return std::nullopt;
  }
  Result<std::chrono::milliseconds> d = parse_duration(f.node.text);
  if (!d) {
    f.report.error(f.node.at, fmt::format("`{}` must be a duration, not {}: {}", f.key,
                                          describe(f.node), reason_of(d.error())));
    return std::nullopt;
  }
  return *d;
}

std::optional<std::uint64_t> read_size(const Field& f) {
  if (!f.node.is(Node::Kind::String) && !f.node.is(Node::Kind::Int) &&
      !f.node.is(Node::Kind::Float)) {
    wrong_type(f, "a size like \"64GiB\"");
    return std::nullopt;
  }
  Result<std::uint64_t> bytes = parse_size(f.node.text);
  if (!bytes) {
    f.report.error(f.node.at, fmt::format("`{}` must be a size, not {}: {}", f.key,
                                          describe(f.node), reason_of(bytes.error())));
    return std::nullopt;
  }
  return *bytes;
}

std::optional<std::vector<PlacedText>> read_texts(const Field& f) {
  std::vector<PlacedText> out;
  if (f.node.is(Node::Kind::String)) {
    if (has_nul(f)) return std::nullopt;
    out.push_back({f.node.text, f.node.at});
    return out;
  }
  if (!f.node.is(Node::Kind::List)) {
    wrong_type(f, "a list of strings");
    return std::nullopt;
  }
  bool good = true;
  std::string key = fmt::format("{}[]", f.key);
  for (const Node& item : f.node.items) {
    std::optional<std::string> text = read_text({f.report, key, item});
    good = good && text.has_value();
    if (text) out.push_back({*std::move(text), item.at});
  }
  if (!good) return std::nullopt;
  return out;
}

bool expect_table(const Field& f) {
  if (f.node.is(Node::Kind::Table)) return true;
  wrong_type(f, "a table");
  return false;
}

std::optional<std::size_t> read_choice(const Field& f,
                                       const std::vector<std::string_view>& allowed) {
  std::optional<std::string> text = read_text(f);
  if (!text) return std::nullopt;
  for (std::size_t i = 0; i < allowed.size(); ++i)
    if (allowed[i] == *text) return i;
  f.report.error(f.node.at, fmt::format("`{}` must be {}, not \"{}\"{}", f.key, one_of(allowed),
                                        *text, did_you_mean(*text, allowed)));
  return std::nullopt;
}

}  // namespace pergpu
