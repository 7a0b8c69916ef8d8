// The names of processes that an attempt's first process left running.
#pragma once

#include <string>
#include <vector>

#include "os/process/process_tree.h"

namespace pergpu::keeper {

/// The names of some of `left`, each once: "sh", "python3 train.py".  To be asked before they are
/// ended: /proc forgets a process then.
std::vector<std::string> names_of(const std::vector<os::TreeMember>& left);

/// "python3 train.py" of a script's interpreter, else the program's name.  Other words are left
/// out: they may hold secrets.
std::string program_name(const std::string& short_name, const std::vector<std::string>& words);

}  // namespace pergpu::keeper
