// Why a program can't be started, as text for people.
//
// The kernel's "No such file or directory" may mean the program, the interpreter that a script's
// first line names, or the loader of a binary.  This looks at the file and says which.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

/// "command not found: trian (not in the PATH you submitted with)"; "" when nothing is seen that
/// would hinder execvp(`program`) in the folder `cwd` with the environment `env`.
std::string program_trouble(const std::string& program, const std::string& cwd,
                            const std::vector<std::string>& env);

/// What runs a script with this name when it can't run itself: "python" for train.py; "": unknown.
std::string_view interpreter_by_name(std::string_view path);

/// Whether the file is text that begins with "#!" or has a format that the kernel executes.
/// Otherwise /bin/sh reads it.  True where it can't be read.
bool says_what_runs_it(const std::string& path);

}  // namespace pergpu::os
