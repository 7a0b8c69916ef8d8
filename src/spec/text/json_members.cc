// A strict recursive-descent check of RFC 8259 that keeps nothing.
#include "spec/text/json_members.h"

#include <algorithm>
#include <optional>

#include "spec/text/number_text.h"
#include "spec/text/source_text.h"

namespace pergpu {
namespace {

char32_t hex4(std::string_view digits) {
  char32_t value = 0;
  for (char c : digits) {
    char32_t digit = static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    value = value * 16 + digit;
  }
  return value;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }
  std::size_t at() {
    skip_space();
    return at_;
  }

  bool skip_string() {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20) return false;
      if (c == '\\' && !skip_escape()) return false;
      ++at_;
    }
    return false;
  }

  bool skip_value(int depth) {
    skip_space();
    if (depth > kMaxDepth + 1 || at_ >= text_.size()) return false;
    switch (text_[at_]) {
      case '"':
        return skip_string();
      case '{':
        ++at_;
        if (take('}')) return true;
        do {
          if (!skip_string() || !take(':') || !skip_value(depth + 1)) return false;
        } while (take(','));
        return take('}');
      case '[':
        ++at_;
        if (take(']')) return true;
        do {
          if (!skip_value(depth + 1)) return false;
        } while (take(','));
        return take(']');
      default: {
        std::size_t end = text_.find_first_of(" \t\r\n,:]}", at_);
        std::string_view word = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
        at_ += word.size();
        return word == "true" || word == "false" || word == "null" || looks_like_json_number(word);
      }
    }
  }

 private:
  bool skip_escape() {
    ++at_;
    if (at_ >= text_.size()) return false;
    if (text_[at_] != 'u')
      return std::string_view("\"\\/bfnrt").find(text_[at_]) != std::string_view::npos;
    const std::optional<char32_t> first = hex_behind(at_ + 1);
    if (!first) return false;
    at_ += 4;
    if (*first < 0xD800 || *first > 0xDFFF) return true;
    // Half a character: other readers refuse one without the other.
    if (*first > 0xDBFF || text_.substr(at_ + 1, 2) != "\\u") return false;
    const std::optional<char32_t> second = hex_behind(at_ + 3);
    at_ += 6;
    return second && *second >= 0xDC00 && *second <= 0xDFFF;
  }

  std::optional<char32_t> hex_behind(std::size_t at) const {
    const std::string_view digits = text_.substr(std::min(at, text_.size()), 4);
    if (digits.size() < 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      return std::nullopt;
    return hex4(digits);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void append_utf8(std::string& to, char32_t c) {
  auto byte = [&](char32_t b) { to += static_cast<char>(static_cast<unsigned char>(b)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | (c >> 6));
    byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | (c >> 12));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | (c >> 18));
    byte(0x80 | ((c >> 12) & 0x3F));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  }
}

char unescaped(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;
  }
}

Error not_an_object(std::string_view text) {
  return Error{ErrorKind::Invalid, 0, "not a JSON object: " + std::string(text.substr(0, 80))};
}

}  // namespace

Result<void> visit_members(std::string_view text,
                           const std::function<void(std::string&&, std::string_view)>& visit) {
  Scanner scanner(text);
  if (!scanner.take('{')) return not_an_object(text);
  if (!scanner.take('}')) {
    do {
      std::size_t name_begin = scanner.at();
      if (!scanner.skip_string()) return not_an_object(text);
      std::string_view name = scanner.since(name_begin);
      if (!scanner.take(':')) return not_an_object(text);
      std::size_t value_begin = scanner.at();
      if (!scanner.skip_value(0)) return not_an_object(text);
      visit(decode_json_string(name), scanner.since(value_begin));
    } while (scanner.take(','));
    if (!scanner.take('}')) return not_an_object(text);
  }
  if (!scanner.at_end()) return not_an_object(text);
  return {};
}

std::string decode_json_string(std::string_view quoted) {
  std::string_view body = quoted.substr(1, quoted.size() - 2);
  std::string out;
  out.reserve(body.size());
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    ++i;
    if (body[i] != 'u') {
      out += unescaped(body[i]);
      continue;
    }
    char32_t c = hex4(body.substr(i + 1, 4));
    i += 4;
    bool high = c >= 0xD800 && c < 0xDC00;
    if (high && i + 6 < body.size() && body[i + 1] == '\\' && body[i + 2] == 'u') {
      char32_t low = hex4(body.substr(i + 3, 4));
      if (low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        i += 6;
      }
    }
    if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;  // a lone surrogate has no UTF-8
    append_utf8(out, c);
  }
  return out;
}

}  // namespace pergpu
