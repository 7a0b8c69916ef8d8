// from_chars throughout: it knows no locale.
#include "spec/text/number_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include "ascii.h"

namespace pergpu {
namespace {

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

/// The digits that count: without the point, and without zeros at either end.
std::string significant(std::string_view mantissa) {
  std::string digits;
  for (char c : mantissa)
    if (is_digit(c)) digits += c;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

/// The shortest digits that read back as the same number.
std::string shortest_digits(double value) {
  char buffer[32];
  auto [end, code] =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  return significant(text.substr(0, text.find('e')));
}

/// "5", "-05", "+12": what printf and people write; 00012 is part of a name.
bool is_usual_exponent(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() <= 2 || (text.size() == 3 && text[0] != '0');
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

NumberWord number_word(std::string_view text) {
  // Python reads no longer integers.
  constexpr std::size_t kMostDigits = 4'300;
  if (looks_like_json_integer(text))
    return text == "-0" || text.size() > kMostDigits ? NumberWord::None : NumberWord::Int;
  if (!looks_like_json_number(text)) return NumberWord::None;
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = mantissa.find('.');
  // 3.10 is no 3.1; 1.0 is the float 1.
  if (point != std::string_view::npos && mantissa.back() == '0' && mantissa.size() != point + 2)
    return NumberWord::None;
  if (e < text.size()) {
    const std::string_view exponent = text.substr(e + 1);
    if (!is_usual_exponent(exponent) || significant(mantissa).empty()) return NumberWord::None;
    const std::string_view whole = mantissa.substr(0, point);
    const bool is_normal = whole[0] != '0' && whole.size() == 1;
    // 83e2010 is a commit; 15e-5 can only be a number.
    if (!is_normal && exponent[0] != '-') return NumberWord::None;
  }
  const double value = to_double(text);
  if (!std::isfinite(value) || shortest_digits(value) != significant(mantissa))
    return NumberWord::None;
  return NumberWord::Float;
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
