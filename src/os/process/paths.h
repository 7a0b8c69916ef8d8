// Where pergpu keeps its state and its sockets, and where its programs lie.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::os {

/// /etc/machine-id, else the host's name: distinguishes machines that share one home folder.
std::string machine_id();

/// "": it isn't set.
std::string environment_variable(const char* name);

/// This machine's name for people; "localhost" where it has none.
std::string host_name();

/// Slurm's number of the allocation that this process is in; "": none.
std::string slurm_job();

/// What the rules for the home depend on.
struct HomeSources {
  std::string pergpu_home;     // $PERGPU_HOME
  std::string xdg_state_home;  // $XDG_STATE_HOME
  std::string home;            // $HOME
  std::string slurm_job;       // slurm_job()
  std::string machine;
  std::string var_tmp = "/var/tmp";
  uid_t uid = 0;
  std::function<Result<bool>(const std::string& path)> on_network;
};
HomeSources home_sources();

struct Home {
  std::string path;           // absolute, exists, 0700, ours
  bool is_explicit = false;   // by $PERGPU_HOME
  std::string why_elsewhere;  // not empty: why it is not the usual folder; to be said once
};
/// $PERGPU_HOME, else $XDG_STATE_HOME/pergpu/<machine> (~/.local/state), else
/// /var/tmp/pergpu-<uid>; of the latter two, inside an allocation of Slurm, the folder
/// `slurm-<job>`: what is started there lives within the limits of the allocation and ends with it.
/// A folder that others could write, that is not ours, or that is a symlink
/// is refused; so is an explicit one on a network file system.
Result<Home> find_home(const HomeSources& sources);
Result<Home> find_home();

/// Folder for sockets (0700), no other home's: <home>/run for an explicit home, else one below
/// $XDG_RUNTIME_DIR/pergpu, else <home>/run.  The second is remembered in <home>/run-folder and
/// stays the answer as long as it exists.
Result<std::string> run_folder(const Home& home);
/// <home>/run: where sockets lie when they can't lie elsewhere.
std::string run_folder_in(const std::string& home);
/// What run_folder() has remembered; ErrorKind::NotFound: nothing.
Result<std::string> remembered_run_folder(const std::string& home);
/// From now on run_folder() gives this one, which exists.
Result<void> remember_run_folder(const std::string& home, const std::string& folder);

/// Makes `path` if need be; it exists then, is a folder (no link) that belongs to `uid`, and only
/// that user can use it.  ErrorKind::Denied: something else is there, which is left alone.
Result<void> private_folder(const std::string& path, uid_t uid);

/// This process's environment, for a keeper or coordinator of `home`.  PERGPU_HOME, where it's set,
/// is the absolute `home`, because they run in "/".  It's never added, because where the home came
/// from decides where its sockets are.  The mark of an attempt that this process was started from
/// is left out: a process with that mark would be taken for a part of the attempt.
std::vector<std::string> environment_for_home(const std::string& home);

/// Sixteen hexadecimal digits that distinguish one home from another in the names of files.
std::string name_hash(std::string_view text);

/// This program's file.
Result<std::string> own_executable();

/// A program of pergpu's own ("pergpu-keeper"): $PERGPU_KEEPER for that one, beside this program,
/// then in ../libexec/pergpu.
Result<std::string> find_program(std::string_view name);

}  // namespace pergpu::os
