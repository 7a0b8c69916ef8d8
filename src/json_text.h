// JSON on one line.  A template, so that only folders that use JSON need its library.
#pragma once

#include <string>

namespace pergpu {

/// What isn't UTF-8 is replaced: texts may quote paths, which are bytes.
template <typename Json>
std::string json_text(const Json& value, bool ascii = false) {
  return value.dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace pergpu
