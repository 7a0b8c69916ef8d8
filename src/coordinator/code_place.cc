// A home is private from the start, whatever is above it (os::private_folder); a copy beside
// results is as private as the whole path.
#include "coordinator/code_place.h"

#include "os/fs/file.h"
#include "os/fs/private_path.h"
#include "os/process/paths.h"
#include "storage_errno.h"

namespace pergpu {

std::string code_beside_results(const std::string& sweep) { return sweep + "/" + kCodeFolder; }

std::string code_in_home(const std::string& home, const std::string& sweep) {
  return home + "/code/" + os::name_hash(sweep);
}

Result<void> check_code_place(const std::string& copy) {
  const std::string shelf = os::parent_of(copy);
  if (os::name_of(shelf) == kCodeFolder) return os::check_private(copy);
  return os::check_private(copy, os::parent_of(os::parent_of(shelf)));
}

Result<void> check_copy(const std::string& copy) {
  const Result<void> may = check_code_place(copy);
  if (may) return {};
  const Error& why = may.error();
  if (is_storage_errno(why.os_errno)) return may;
  const std::string what = why.os_errno == 0
                               ? "another user may have changed the copy of its code in " + copy
                               : "the copy of its code in " + copy + " can't be reached";
  return Error{ErrorKind::Denied, 0,
               what + " (" + why.message + "); submit the sweep again to make a new copy"};
}

}  // namespace pergpu
