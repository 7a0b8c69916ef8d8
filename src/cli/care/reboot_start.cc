// cron takes `%` as a newline, also inside quotes, unless a backslash precedes it; then sh reads
// the line.
#include "cli/care/reboot_start.h"

#include <cstdlib>
#include <utility>

#include "os/process/paths.h"
#include "view/text/shell_words.h"

namespace pergpu::cli {

Result<std::vector<std::string>> environment_after_reboot() {
  Result<os::Home> home = os::find_home();
  if (!home) return std::move(home).error();
  std::vector<std::string> out;
  if (home->is_explicit) out.push_back("PERGPU_HOME=" + home->path);
  for (const char* name : {"XDG_STATE_HOME", "PERGPU_LOCKS", "PERGPU_CGROUP"}) {
    const char* value = std::getenv(name);
    if (value && (*value == '/' || value == std::string_view("none"))) {
      out.push_back(std::string(name) + "=" + value);
    }
  }
  return out;
}

std::string cron_line(std::string_view program, const std::vector<std::string>& environment) {
  std::string command;
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    command += variable.substr(0, equals + 1) + view::shell_word(variable.substr(equals + 1)) + " ";
  }
  command += view::shell_word(program) + " ps";
  std::string line = "@reboot ";
  for (const char c : command) line += c == '%' ? std::string("\\%") : std::string(1, c);
  return line;
}

}  // namespace pergpu::cli
