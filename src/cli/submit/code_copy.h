// The code from which jobs of a step with `snapshot` run: a copy that is made at submit, so that an
// edit afterwards changes nothing for the jobs that wait.
//
// A copy has the hash of what is in it as its name: the same code is copied once.  It is on disk
// before it has that name.  It lies where only its user can write (coordinator/code_place.h).
#pragma once

#include <string>

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

struct CodeSite {
  std::string home = {};   // the state's
  bool is_remote = false;  // jobs run where the home can't be seen
};

/// Sets StepSpec::copy of each step that wants one.  ErrorKind::Invalid: there is no safe place.
Result<void> copy_code(SweepSpec& sweep, const CodeSite& site);

/// They are still there: a `clean` of the sweep's results may have come between copy and submit.
Result<void> find_copies(const SweepSpec& sweep);

/// What would be copied; ErrorKind::Invalid as copy_code().  For a submit that is only rehearsed.
Result<void> check_code(const SweepSpec& sweep);

}  // namespace pergpu::cli
