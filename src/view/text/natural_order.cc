// Digits beside digits are compared as numbers, however long: the longer one is larger, once zeros
// ahead are left out.
#include "view/text/natural_order.h"

#include <algorithm>
#include <tuple>

#include "ascii.h"

namespace pergpu::view {
namespace {

/// Takes the digits that the text begins with.
std::string_view take_number(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  std::string_view number = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(number.size());
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

std::strong_ordering NaturalName::operator<=>(const NaturalName& other) const {
  std::string_view a = text;
  std::string_view b = other.text;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view first = take_number(a);
      const std::string_view second = take_number(b);
      const auto order = std::tuple(first.size(), first) <=> std::tuple(second.size(), second);
      if (order != 0) return order;
      continue;
    }
    if (a.front() != b.front()) return a.front() <=> b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty())
    return a.empty() ? std::strong_ordering::less : std::strong_ordering::greater;
  return text <=> other.text;  // "07" and "7"
}

}  // namespace pergpu::view
