// from_chars throughout: it knows no locale.
#include "spec/number_text.h"

#include <charconv>
#include <limits>
#include <system_error>

namespace pergpu {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

/// Past an integer of JSON, or 0.
std::size_t skip_json_integer(std::string_view text) {
  std::size_t begin = !text.empty() && text[0] == '-' ? 1 : 0;
  std::size_t end = skip_digits(text, begin);
  if (end == begin || (text[begin] == '0' && end - begin > 1)) return 0;
  return end;
}

}  // namespace

bool looks_like_json_integer(std::string_view text) {
  return !text.empty() && skip_json_integer(text) == text.size();
}

bool looks_like_json_number(std::string_view text) {
  std::size_t at = skip_json_integer(text);
  if (at == 0) return false;
  if (at < text.size() && text[at] == '.') {
    std::size_t end = skip_digits(text, at + 1);
    if (end == at + 1) return false;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    std::size_t end = skip_digits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

std::int64_t to_integer(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  std::int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range)
    return text[0] == '-' ? std::numeric_limits<std::int64_t>::min()
                          : std::numeric_limits<std::int64_t>::max();
  return value;
}

double to_double(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range) {
    // from_chars does not say which: a negative exponent means too small, that is 0.
    std::size_t e = text.find_first_of("eE");
    bool small = e != std::string_view::npos && e + 1 < text.size() && text[e + 1] == '-';
    if (small) return 0;
    double infinity = std::numeric_limits<double>::infinity();
    return text[0] == '-' ? -infinity : infinity;
  }
  return value;
}

}  // namespace pergpu
