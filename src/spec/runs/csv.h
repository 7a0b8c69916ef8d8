// Comma-separated values by RFC 4180: quotes may hold commas, newlines and doubled quotes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu {

struct CsvField {
  std::string text = {};
  std::size_t offset = 0;  // in the whole text
  bool quoted = false;
};

struct CsvError {
  std::size_t offset = 0;
  std::string message = {};
};

/// Calls `visit` for each record; empty lines are none.  Stops at the first error, if any.
std::vector<CsvError> visit_csv(std::string_view text,
                                const std::function<void(const std::vector<CsvField>&)>& visit);

}  // namespace pergpu
