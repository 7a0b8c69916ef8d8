// Where the code of steps with `snapshot` lies while their jobs wait (cli/submit/code_copy.h makes
// the copies): only its user can have changed it.
//
//   <output root>/<sweep>/_snapshot/<hash>  where no other user can write on the way there
//   <home>/code/<of the sweep>/<hash>       else
#pragma once

#include <string>

#include "result.h"

namespace pergpu {

inline constexpr char kCodeFolder[] = "_snapshot";

/// `sweep`: <output root>/<sweep's name>.
std::string code_beside_results(const std::string& sweep);
std::string code_in_home(const std::string& home, const std::string& sweep);

/// Others can't have changed it, nor put another folder in its place.  The message says who can.
/// `copy`: a folder in one of the two.
Result<void> check_code_place(const std::string& copy);

/// Before a start.  Denied: refused; the error names the copy, says what is wrong and what to do.
/// Else a disk fails.
Result<void> check_copy(const std::string& copy);

}  // namespace pergpu
