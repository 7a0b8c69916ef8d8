// Trials of `pergpu doctor`: what only running a program shows.
#pragma once

#include <string>

namespace pergpu::cli {

/// A job of a separate coordinator, in a temporary folder that is removed afterwards.
struct JobTrial {
  double seconds = 0;          // from the start of `pergpu run` to its end
  std::string complaint = {};  // why it failed, in one line; "": it is done
};
/// `program`: the path of pergpu.  Takes 30 s at most.
JobTrial try_job(const std::string& program);

/// The Python package, as the interpreter beside `pergpu` sees it, else the one in PATH.
struct PythonTrial {
  std::string python = {};     // path of the interpreter; "": there is none
  std::string version = {};    // of the package; "": it isn't installed there
  std::string complaint = {};  // why its compiled part can't be loaded, in one line
};
PythonTrial try_python(const std::string& program);

}  // namespace pergpu::cli
