// Copies of the code of sweeps (cli/submit/code_copy.h) that lie in the home: `clean` removes them
// with the results.  Those beside results go as a folder of these.
//
// Like results they are moved aside first: from then on another sweep may have the place.
#pragma once

#include <string>

#include "result.h"

namespace pergpu::cli {

class CodeRemoval {
 public:
  /// `sweep`: <output root>/<sweep's name>.  `aside`: its name when it is put aside, of this sweep
  /// alone (".cleaned-3").
  CodeRemoval(const std::string& home, const std::string& sweep, std::string aside);

  /// Nothing to move is no failure.
  Result<void> put_aside() const;
  void put_back() const;
  /// What was put aside, also by a `clean` that was killed.
  Result<void> remove_aside() const;
  /// All of it, put aside or not.
  Result<void> remove() const;

 private:
  std::string folder_;  // <home>/code
  std::string name_;
  std::string aside_;
};

}  // namespace pergpu::cli
