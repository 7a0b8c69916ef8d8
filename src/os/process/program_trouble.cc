// The first lines of scripts are read as Linux reads them: up to 256 bytes, the interpreter up to
// the first blank, all the rest as one argument.
#include "os/process/program_trouble.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "ascii.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kFirstLine = 256;
constexpr std::string_view kBlanks = " \t";

std::string absolute(const std::string& path, const std::string& cwd) {
  return path.starts_with('/') || cwd.empty() ? path : cwd + "/" + path;
}

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// In double quotes, with what can't be seen made visible.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string first_bytes(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(kFirstLine, '\0');
  const ssize_t n = fd ? ::read(fd.get(), bytes.data(), bytes.size()) : 0;
  bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return bytes;
}

/// `before` and what runs the script without the kernel: ", or write `python train.py`".
std::string or_by_interpreter(const std::string& program, std::string_view before) {
  const std::string_view interpreter = interpreter_by_name(program);
  if (interpreter.empty()) return {};
  std::string shown = program;
  if (shown.starts_with("./")) shown.erase(0, 2);
  return std::string(before) + "`" + std::string(interpreter) + " " + shown + "`";
}

/// What is wrong with executing `path`, which exists, apart from what it contains.
std::string access_trouble(const std::string& program, const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) < 0) return {};
  if (S_ISDIR(st.st_mode)) return program + " is a folder, not a program";
  struct statvfs where {};
  const bool is_noexec = ::statvfs(path.c_str(), &where) == 0 && (where.f_flag & ST_NOEXEC) != 0;
  if (is_noexec) {
    return program + " is on a file system mounted noexec" + or_by_interpreter(program, "; write ");
  }
  if (::access(path.c_str(), X_OK) == 0) return {};
  return program + " is not executable; `chmod +x " + program + "`" +
         or_by_interpreter(program, ", or write ");
}

/// The program that `#!/usr/bin/env …` looks for; "" when that can't be determined.
std::string wanted_by_env(std::string_view argument) {
  const bool is_split = argument.starts_with("-S");
  if (is_split) argument.remove_prefix(2);
  std::string rest(trimmed(argument));
  if (!is_split) return rest;
  while (true) {
    const std::string word = rest.substr(0, rest.find_first_of(kBlanks));
    if (word.find('=') == std::string::npos) return word;
    rest = std::string(trimmed(std::string_view(rest).substr(word.size())));
  }
}

std::string not_in_path(const std::string& name, const std::string& cwd,
                        const std::vector<std::string>& env) {
  for (const std::string& candidate : exec_candidates(name, env)) {
    const std::string path = absolute(candidate, cwd);
    if (is_regular(path) && ::access(path.c_str(), X_OK) == 0) return {};
  }
  return "not in the PATH you submitted with";
}

std::string env_trouble(const std::string& program, std::string_view argument,
                        const std::string& cwd, const std::vector<std::string>& env) {
  const std::string wanted = wanted_by_env(argument);
  if (wanted.empty() || wanted.starts_with('-') || wanted.find('/') != std::string::npos) return {};
  const std::size_t blank = wanted.find_first_of(kBlanks);
  if (blank != std::string::npos) {
    return program + ": its first line makes `env` look for a program named " + in_quotes(wanted) +
           "; write `env -S " + wanted + "` there";
  }
  const std::string why = not_in_path(wanted, cwd, env);
  if (why.empty()) return {};
  return program + ": its first line asks for " + in_quotes(wanted) + ", which is " + why;
}

std::string interpreter_trouble(const std::string& program, std::string_view first_line,
                                const std::string& cwd, const std::vector<std::string>& env) {
  std::string line(trimmed(first_line.substr(2)));
  const std::size_t end = line.find_first_of(kBlanks);
  const std::string interpreter = line.substr(0, end);
  if (interpreter.empty()) return {};
  const bool is_from_windows = line.ends_with('\r');
  const auto missing = [&](const std::string& name) {
    const std::string says = program + ": no such interpreter " + in_quotes(name);
    if (is_from_windows)
      return says + " (the file has Windows line endings); convert it with dos2unix";
    return says + " (its first line names it); correct that line" +
           or_by_interpreter(program, ", or write ");
  };
  const std::string path = absolute(interpreter, cwd);
  if (!exists(path)) return missing(interpreter);
  if (is_directory(path) || ::access(path.c_str(), X_OK) < 0) {
    return program + ": the interpreter " + in_quotes(interpreter) +
           " that its first line names is not executable";
  }
  if (last_name(interpreter) != "env" || end == std::string::npos) return {};
  if (is_from_windows) return missing(std::string(trimmed(std::string_view(line).substr(end))));
  return env_trouble(program, std::string_view(line).substr(end + 1), cwd, env);
}

/// The loader of a binary for this kind of machine; "" where it has none.
std::string loader_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr head;
  if (!fd || ::pread(fd.get(), &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head) ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part;
    const auto at = static_cast<off_t>(head.e_phoff + i * sizeof part);
    if (::pread(fd.get(), &part, sizeof part, at) != static_cast<ssize_t>(sizeof part)) return {};
    if (part.p_type != PT_INTERP || part.p_filesz > PATH_MAX) continue;
    std::string name(part.p_filesz, '\0');
    const ssize_t n =
        ::pread(fd.get(), name.data(), name.size(), static_cast<off_t>(part.p_offset));
    name.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return name.substr(0, name.find('\0'));
  }
  return {};
}

std::string content_trouble(const std::string& program, const std::string& path,
                            const std::string& cwd, const std::vector<std::string>& env) {
  const std::string bytes = first_bytes(path);
  if (bytes.starts_with("#!"))
    return interpreter_trouble(program, bytes.substr(0, bytes.find('\n')), cwd, env);
  if (!bytes.starts_with(ELFMAG)) return {};
  const std::string loader = loader_of(path);
  if (loader.empty() || exists(loader)) return {};
  return program + " was built for another system: its loader " + in_quotes(loader) +
         " is not on this machine";
}

std::string missing(const std::string& program, const std::string& cwd) {
  if (program.find('/') == std::string::npos) {
    std::string says = "command not found: " + program + " (not in the PATH you submitted with)";
    if (is_regular(absolute(program, cwd)))
      says += "; there is one in " + cwd + ": write ./" + program;
    return says;
  }
  const std::string path = absolute(program, cwd);
  std::array<char, PATH_MAX> target{};
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  if (n > 0) {
    return program + " is a link to " + std::string(target.data(), static_cast<std::size_t>(n)) +
           ", which doesn't exist";
  }
  return "no such file: " + program + (program.starts_with('/') ? "" : " (in " + cwd + ")");
}

}  // namespace

std::string_view interpreter_by_name(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kKnown = {{
      {".py", "python"},
      {".sh", "bash"},
      {".bash", "bash"},
      {".R", "Rscript"},
      {".r", "Rscript"},
      {".jl", "julia"},
      {".pl", "perl"},
      {".rb", "ruby"},
  }};
  for (const auto& [ending, interpreter] : kKnown) {
    if (path.ends_with(ending)) return interpreter;
  }
  return {};
}

bool says_what_runs_it(const std::string& path) {
  const std::string bytes = first_bytes(path);
  return bytes.empty() || bytes.starts_with("#!") || bytes.starts_with(ELFMAG);
}

std::string program_trouble(const std::string& program, const std::string& cwd,
                            const std::vector<std::string>& env) {
  std::string trouble;  // of the first file that is there
  for (const std::string& candidate : exec_candidates(program, env)) {
    const std::string path = absolute(candidate, cwd);
    if (!exists(path)) continue;
    std::string found = access_trouble(candidate, path);
    if (found.empty()) found = content_trouble(candidate, path, cwd, env);
    if (found.empty()) return {};
    const bool is_found_by_path = program.find('/') == std::string::npos;
    // A folder of that name in the PATH is passed over, as the C library does.
    if (trouble.empty() && !(is_found_by_path && is_directory(path))) trouble = std::move(found);
  }
  return trouble.empty() ? missing(program, cwd) : trouble;
}

}  // namespace pergpu::os
