// The files env/<sweep id> beside the store: the environments that sweeps' jobs inherit.  They may
// hold secrets, so they lie in no table, no log and no other file; only the user can read them.
#pragma once

#include <string>

#include "ids.h"
#include "result.h"
#include "store/store.h"

namespace pergpu::store {

class EnvironmentFiles {
 public:
  EnvironmentFiles() = default;
  explicit EnvironmentFiles(const std::string& store_path);

  /// Durable when it returns.
  Result<void> write(const row::Environment& environment) const;
  /// Best effort: a file that stays is overwritten or removed later.
  void remove(SweepId sweep) const;

 private:
  std::string path_of(SweepId sweep) const;

  std::string folder_;
};

}  // namespace pergpu::store
