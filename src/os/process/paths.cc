// A home on a network file system is refused because flock and SQLite's WAL do not hold across
// machines there, and because two machines would then share one queue.
#include "os/process/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "os/fs/file.h"
#include "os/fs/real_path.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"
#include "os/utf8.h"

namespace pergpu::os {
namespace {

constexpr char kRunFolderFile[] = "/run-folder";

std::string hex(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {kDigits[byte >> 4u], kDigits[byte & 0xfu]};
}

Result<std::string> absolute(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.front() == '/') return path;
  std::array<char, PATH_MAX> here{};
  if (!::getcwd(here.data(), here.size())) return os_error("current folder");
  return std::string(here.data()) + "/" + path;
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<void> private_folder(const std::string& path, uid_t uid) {
  const auto refused = [&path](std::string why) {
    return Error{ErrorKind::Denied, 0, "folder " + path + ": " + std::move(why)};
  };
  struct stat st {};
  if (::lstat(path.c_str(), &st) < 0) {
    if (errno != ENOENT) return os_error("folder " + path);
    Result<void> made = make_dirs(path, 0700);
    if (!made) return made;
    if (::lstat(path.c_str(), &st) < 0) return os_error("folder " + path);
  }
  if (S_ISLNK(st.st_mode)) return refused("it is a symlink; use the folder itself");
  if (!S_ISDIR(st.st_mode)) return refused("it is not a folder");
  if (st.st_uid != uid) {
    return refused("it belongs to uid " + std::to_string(st.st_uid) + ", not to you (uid " +
                   std::to_string(uid) + "); set PERGPU_HOME to another folder");
  }
  if (st.st_mode & 022) return refused("others can write to it; chmod 700 it");
  if ((st.st_mode & 077) == 0) return {};
  // Others can read it.  An empty one was made for us; one with content may be something else (a
  // home folder, say), whose mode is not ours to change.
  Result<std::vector<std::string>> names = list_dir(path);
  if (!names) return std::move(names).error();
  if (!names->empty()) {
    return refused("others can read it; chmod 700 it, or name an empty folder");
  }
  if (::chmod(path.c_str(), 0700) < 0) return os_error("chmod " + path);
  return {};
}

std::vector<std::string> environment_for_home(const std::string& home) {
  constexpr std::string_view kHome = "PERGPU_HOME=";
  const std::string marker = std::string(kMarkerName) + "=";
  std::vector<std::string> env = own_environment();
  std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(marker); });
  for (std::string& entry : env) {
    // An empty one means none, as for find_home().
    const bool names_home = entry.starts_with(kHome) && entry.size() > kHome.size();
    if (names_home) entry = std::string(kHome) + home;
  }
  return env;
}

std::string name_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
  return out;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) < 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string machine_id() {
  for (const char* path : {"/etc/machine-id", "/var/lib/dbus/machine-id"}) {
    Result<std::string> id = read_file(path, 256);
    if (!id) continue;
    while (!id->empty() && id->back() == '\n') id->pop_back();
    if (id->size() >= 16 && id->find_first_not_of("0123456789abcdef") == std::string::npos) {
      return *id;
    }
  }
  std::string text = host_name();
  for (char& c : text) {
    if (c == '/') c = '_';
  }
  return text[0] == '.' ? "_" + text : text;
}

std::string slurm_job() {
  const std::string job = environment_variable("SLURM_JOB_ID");
  return job.find_first_not_of("0123456789") == std::string::npos ? job : std::string();
}

HomeSources home_sources() {
  return {.pergpu_home = environment_variable("PERGPU_HOME"),
          .xdg_state_home = environment_variable("XDG_STATE_HOME"),
          .home = environment_variable("HOME"),
          .slurm_job = slurm_job(),
          .machine = machine_id(),
          .var_tmp = "/var/tmp",
          .uid = ::getuid(),
          .on_network = on_network_filesystem};
}

Result<Home> find_home() { return find_home(home_sources()); }

namespace {

/// The home of an allocation lies in the usual one.
Result<Home> within(Home usual, const HomeSources& sources) {
  if (sources.slurm_job.empty()) return usual;
  usual.path += "/slurm-" + sources.slurm_job;
  Result<void> ready = private_folder(usual.path, sources.uid);
  if (!ready) return std::move(ready).error();
  return usual;
}

/// SQLite opens no file whose path is longer than 512 bytes; the longest name in a home has 30.
Result<void> short_enough(const std::string& path) {
  constexpr std::size_t kLongest = 480;
  if (path.size() <= kLongest) return {};
  return Error{ErrorKind::Invalid, ENAMETOOLONG,
               path + " has " + std::to_string(path.size()) +
                   " bytes, but the database is limited to " + std::to_string(kLongest) +
                   "; set PERGPU_HOME to a shorter path"};
}

/// It is sent as JSON and shown.
Result<void> is_text(const std::string& path) {
  if (is_utf8(path)) return {};
  std::string shown;
  for (const char c : path) {
    const bool is_plain = static_cast<unsigned char>(c) < 0x80;
    shown += is_plain ? std::string(1, c) : "\\x" + hex(static_cast<unsigned char>(c));
  }
  return Error{
      ErrorKind::Invalid, 0,
      "the home's path is not valid UTF-8: \"" + shown + "\"; set PERGPU_HOME to another folder"};
}

/// `~` was in quotes, or in a file that no shell reads.
Result<std::string> explicit_path(const HomeSources& sources) {
  const std::string& named = sources.pergpu_home;
  if (!named.starts_with('~')) return absolute(named);
  const std::size_t end = std::min(named.find('/'), named.size());
  if (end > 1) {
    return Error{ErrorKind::Invalid, 0,
                 "PERGPU_HOME=" + named +
                     ": only ~/ is expanded, to your home folder; write the full path, or ./" +
                     named + " for a name that begins with ~"};
  }
  if (!sources.home.starts_with('/')) {
    return Error{ErrorKind::Invalid, 0,
                 "PERGPU_HOME=" + named + ": HOME isn't set to a folder; write the full path"};
  }
  return absolute(sources.home + named.substr(1));
}

}  // namespace

Result<Home> find_home(const HomeSources& sources) {
  if (!sources.pergpu_home.empty()) {
    Result<std::string> path = explicit_path(sources);
    if (!path) return std::move(path).error();
    if (Result<void> text = is_text(*path); !text) return std::move(text).error();
    if (Result<void> fits = short_enough(*path); !fits) return std::move(fits).error();
    Result<bool> network = sources.on_network(*path);
    if (!network) return std::move(network).error();
    if (*network) {
      return Error{ErrorKind::Invalid, 0,
                   "PERGPU_HOME=" + sources.pergpu_home +
                       ": it's on a network file system, where locks and the database aren't "
                       "reliable; use a folder on a local disk"};
    }
    Result<void> ready = private_folder(*path, sources.uid);
    if (!ready) return std::move(ready).error();
    return Home{.path = real_path(*path), .is_explicit = true, .why_elsewhere = ""};
  }

  // The XDG rule: a relative value is to be ignored.
  std::string state = sources.xdg_state_home;
  if (!state.starts_with('/')) state = sources.home.empty() ? "" : sources.home + "/.local/state";
  std::string why;
  if (!state.starts_with('/')) {
    why = "neither XDG_STATE_HOME nor HOME is set to a folder";
  } else {
    const std::string path = state + "/pergpu/" + sources.machine;
    if (Result<void> text = is_text(path); !text) return std::move(text).error();
    const Result<void> fits = short_enough(path);
    Result<bool> network = sources.on_network(path);
    if (!fits) {
      why = fits.error().message;
    } else if (network && !*network) {
      Result<void> ready = private_folder(path, sources.uid);
      const std::string real = real_path(path);  // the user's home may be a link
      if (ready) return within({.path = real, .is_explicit = false, .why_elsewhere = ""}, sources);
      // It exists and is not safe: using another one silently would hide its jobs.
      if (exists(path)) return std::move(ready).error();
      why = ready.error().message;
    } else {
      why = network ? path + " is on a network file system" : network.error().message;
    }
  }

  const std::string path = sources.var_tmp + "/pergpu-" + std::to_string(sources.uid);
  Result<void> ready = private_folder(path, sources.uid);
  if (!ready) return std::move(ready).error();
  return within({.path = path, .is_explicit = false, .why_elsewhere = why}, sources);
}

std::string run_folder_in(const std::string& home) { return home + "/run"; }

Result<std::string> remembered_run_folder(const std::string& home) {
  return read_file(home + kRunFolderFile, PATH_MAX);
}

Result<void> remember_run_folder(const std::string& home, const std::string& folder) {
  const Result<std::string> known = remembered_run_folder(home);
  if (known && *known == folder) return {};
  if (!known && known.error().kind == ErrorKind::NotFound && folder == run_folder_in(home)) {
    return {};
  }
  return write_file_atomic(home + kRunFolderFile, folder, 0600, false);
}

Result<std::string> run_folder(const Home& home) {
  const uid_t uid = ::getuid();
  // The first choice stays as long as it exists: a shell without XDG_RUNTIME_DIR (cron) and a
  // coordinator that a keeper revives must find the sockets of the one that is running.
  if (Result<std::string> known = remembered_run_folder(home.path)) {
    struct stat st {};
    if (::lstat(known->c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid &&
        (st.st_mode & 077) == 0) {
      return *std::move(known);
    }
  }
  const std::string runtime = environment_variable("XDG_RUNTIME_DIR");
  struct stat st {};
  if (!home.is_explicit && runtime.starts_with('/') && ::lstat(runtime.c_str(), &st) == 0 &&
      S_ISDIR(st.st_mode) && st.st_uid == uid && (st.st_mode & 077) == 0) {
    // One for each home: a coordinator ends what runs in its run folder and is not of its home.
    const std::string path = runtime + "/pergpu/" + name_hash(home.path);
    if (private_folder(runtime + "/pergpu", uid) && private_folder(path, uid)) {
      Result<void> remembered = remember_run_folder(home.path, path);
      if (!remembered) return std::move(remembered).error();
      return path;
    }
  }
  const std::string path = run_folder_in(home.path);
  Result<void> ready = private_folder(path, uid);
  if (!ready) return std::move(ready).error();
  return path;
}

Result<std::string> own_executable() {
  std::array<char, PATH_MAX> target{};
  const ssize_t n = ::readlink("/proc/self/exe", target.data(), target.size());
  if (n < 0) return os_error("readlink /proc/self/exe");
  std::string path(target.data(), static_cast<std::size_t>(n));
  // So the kernel names a file that was replaced (an upgrade) while it runs.
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted) && !exists(path)) path.resize(path.size() - kDeleted.size());
  return path;
}

Result<std::string> find_program(std::string_view name) {
  const std::string chosen = name == "pergpu-keeper" ? environment_variable("PERGPU_KEEPER") : "";
  if (!chosen.empty()) {
    Result<std::string> path = absolute(chosen);
    if (path && ::access(path->c_str(), X_OK) < 0) return os_error("PERGPU_KEEPER=" + chosen);
    return path;
  }
  Result<std::string> self = own_executable();
  if (!self) return self;
  const std::string folder = parent_of(*self);
  const std::string beside = folder + "/" + std::string(name);
  const std::string libexec = parent_of(folder) + "/libexec/pergpu/" + std::string(name);
  for (const std::string& path : {beside, libexec}) {
    if (is_regular(path) && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return Error{ErrorKind::NotFound, ENOENT,
               "program " + std::string(name) + ": neither " + beside + " nor " + libexec +
                   " can be executed; install pergpu again"};
}

}  // namespace pergpu::os
