// unit_quoted() and program_of_unit() are each other's inverse for paths.
#include "cli/care/user_unit.h"

#include <cstdlib>

#include "os/fs/file.h"

namespace pergpu::cli {

std::string user_unit_path() {
  constexpr const char* kUnit = "/systemd/user/pergpu.service";
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && *config == '/') return std::string(config) + kUnit;
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.config" + kUnit : std::string();
}

bool has_user_manager() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime && *runtime && os::exists(std::string(runtime) + "/systemd/private");
}

std::string unit_quoted(std::string_view text, bool is_command) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    if (c == '%' || (is_command && c == '$')) out += c;
    out += c;
  }
  return out + '"';
}

std::string program_of_unit(std::string_view unit) {
  constexpr std::string_view kKey = "\nExecStart=";
  const std::size_t at = unit.find(kKey);
  if (at == std::string_view::npos) return {};
  unit.remove_prefix(at + kKey.size());
  unit = unit.substr(0, unit.find('\n'));
  const bool is_quoted = unit.starts_with('"');
  if (is_quoted) unit.remove_prefix(1);
  std::string program;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const char c = unit[i];
    if (c == (is_quoted ? '"' : ' ')) break;
    const bool has_next = i + 1 < unit.size();
    if (c == '\\' && has_next) {
      ++i;
      program += unit[i] == 'n' ? '\n' : unit[i];
    } else {
      program += c;
      if ((c == '%' || c == '$') && has_next && unit[i + 1] == c) ++i;
    }
  }
  return program;
}

}  // namespace pergpu::cli
