// Runs another program to its end and brings what it said.  For processes that may wait: the helper
// that sends notifications, `pergpu notify test`.  The deciding thread must not come here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "os/process/child.h"
#include "result.h"

namespace pergpu {

struct ProgramCall {
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};  // NAME=value, complete
  std::string cwd = {};
  std::string input = {};                          // what it reads from stdin
  std::optional<std::string> more = std::nullopt;  // what it finds as /dev/fd/3
  std::int64_t limit_ns = 0;
  std::optional<std::uint32_t> umask = std::nullopt;  // nullopt: ours
  std::size_t most_said = 4096;                       // bytes that are kept of each output
};

struct ProgramEnd {
  std::optional<os::ExitStatus> status = std::nullopt;  // nullopt: it took too long and was killed
  std::string output = {};                              // the first bytes of stdout (most_said)
  std::string complaint = {};                           // … and of stderr
};

/// The last line of an output that isn't blank, without the blanks behind it.
std::string_view last_line(std::string_view output);

/// It has its own session, and ends with us.  At the limit its process group is killed.  What
/// it leaves running in the background after its end is left alone.
Result<ProgramEnd> run_program(const ProgramCall& call);

/// The file that would be executed for `program`; "": there is none.
std::string find_executable(const std::string& program, const std::vector<std::string>& env);

/// A file without a name that holds `text`, to be read from its begin.
Result<os::UniqueFd> memory_file(std::string_view text);

}  // namespace pergpu
