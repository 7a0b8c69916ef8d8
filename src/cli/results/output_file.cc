// A rename takes the place of whatever has the name.  So that is looked at first: `-o /dev/null`
// leaves the device where it is.
#include "cli/results/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "cli/term/messages.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/terminal.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {}  // namespace

Result<void> write_output(const std::string& path, std::string_view content) {
  const Result<os::HeldName> file = os::walk_through(path);
  if (!file && os::is_foreign_link(file.error())) {
    return Error{ErrorKind::Invalid, 0, "can't write " + path + ": " + file.error().message};
  }
  if (os::is_directory(path)) {
    return Error{ErrorKind::Invalid, 0, path + " is a folder; name a file in it"};
  }
  if (os::exists(path) && !os::is_regular(path)) {
    return Error{ErrorKind::Invalid, 0,
                 path + " is not a regular file; to write to it, redirect stdout: -o - > FILE"};
  }
  const mode_t mode = 0666 & ~os::current_umask();
  const Result<void> written =
      file ? file->folder.write_file_atomic(file->name, content, mode, false) : file.error();
  if (written) return {};
  // Not the name of the draft.  A missing folder is no selector that matched nothing.
  const int why = written.error().os_errno;
  return Error{ErrorKind::Io, why, os_error("can't write " + path, why).message};
}

bool print_data(std::string_view data) {
  if (!os::is_terminal(STDOUT_FILENO)) return print(data);
  view::LogFilter filter;
  std::string safe = filter.feed(data);
  safe += filter.finish();
  return print(safe);
}

}  // namespace pergpu::cli
