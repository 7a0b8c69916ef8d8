// Fields of JSON objects that another process or an older version wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pergpu {

/// "": the object has none, or of another type.
inline std::string string_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace pergpu
