// Looks at every page and every row of a store and changes nothing.  `pergpu store check`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "result.h"
#include "store/store.h"

namespace pergpu::store {

struct CheckReport {
  std::int64_t version = 0;
  std::int64_t sweeps = 0;
  std::int64_t runs = 0;
  std::int64_t jobs = 0;
  std::int64_t events = 0;  // one for all that were folded of a job
  std::vector<std::string> problems = {};
};

/// `visit` gets each row in the order of Store::load() and returns what is wrong with it.  An
/// error: the file could not be looked at (it does not exist, is in use, is of a newer version);
/// what is damaged is in `problems`.
Result<CheckReport> check(const std::string& path,
                          const std::function<Result<void>(const Row&)>& visit);

}  // namespace pergpu::store
