// A number too large to be one is none.
#include "view/natural_order.h"

#include <charconv>

namespace pergpu::view {

std::pair<std::string_view, long> natural_key(std::string_view name) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  long number = -1;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return {name.substr(0, digits), number};
}

}  // namespace pergpu::view
