// `pergpu coordinator status | start | stop | enable`, and what the program itself calls: the
// hidden `coordinator run` is the background process, the hidden `probe` the one that touches NVML,
// `stacks` one that looks at a job that hangs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/care/reboot_start.h"
#include "cli/care/stop.h"
#include "cli/care/user_unit.h"
#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "coordinator/stop_mark.h"
#include "daemon/main_loop.h"
#include "gpu/probe_main.h"
#include "os/fs/file.h"
#include "os/process/cgroup_site.h"
#include "os/process/paths.h"
#include "run/stacks.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct CoordinatorRunOptions {
  bool foreground = false;
  bool was_asked_for = false;
  std::int32_t succeeds = 0;
};

int run_coordinator(const CoordinatorRunOptions& options) {
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  return coordinator_main({.home = place->home,
                           .run_dir = place->run_dir,
                           .foreground = options.foreground,
                           .was_asked_for = options.was_asked_for,
                           .succeeds = options.succeeds});
}

struct StatusOptions {
  bool as_json = false;
  bool unless_stopped = false;  // of `start`: fails after `stop`
};

int status(const StatusOptions& options, Client::Start start) {
  if (options.unless_stopped) {
    const Result<Place> place = find_place();
    if (place && !stop_mark(place->home).empty()) {
      return fail({ErrorKind::Unavailable, 0, kStoppedWords});
    }
  }
  const Result<json> reply = ask({{"op", "status"}}, start);
  if (!reply) {
    fail(reply.error());
    return kUnreachable;
  }
  if (options.as_json) {
    print(output_line(*reply));
    return kOk;
  }
  std::string out;
  for (const auto& [name, value] : reply->items()) {
    if (name == "schema") continue;
    out +=
        fmt::format("{:<12}{}\n", view::safe_line(name),
                    view::safe_line(value.is_string() ? value.get<std::string>() : to_line(value)));
  }
  print(out);
  return kOk;
}

int enable() {
  const Result<std::string> executable = os::own_executable();
  if (!executable) return fail(executable.error());
  const Result<std::vector<std::string>> variables = environment_after_reboot();
  if (!variables) return fail(variables.error());
  if (!has_user_manager()) {
    return fail({ErrorKind::Unavailable, 0,
                 fmt::format("no systemd user manager ($XDG_RUNTIME_DIR/systemd/private does not "
                             "exist), so systemd can't start the coordinator after a reboot; start "
                             "it with any pergpu command, or put this line into your crontab: {}",
                             cron_line(*executable, *variables))});
  }
  const std::string path = user_unit_path();
  if (path.empty()) {
    return fail({ErrorKind::Unavailable, 0, "neither XDG_CONFIG_HOME nor HOME is set"});
  }
  std::string environment;
  for (const std::string& variable : *variables) {
    environment += fmt::format("Environment={}\n", unit_quoted(variable, false));
  }
  // --foreground: it stays when it has nothing to do, as a service should.  KillMode=process:
  // stopping the unit ends the coordinator and leaves the jobs.  DelegateSubgroup: the unit's own
  // group may then hand its controllers on (os/process/cgroup_site.h); systemd before 254 passes
  // over it.
  const std::string unit = fmt::format(
      "[Unit]\nDescription=pergpu coordinator: runs queued training jobs\n\n"
      "[Service]\nExecStart={} coordinator run "
      "--foreground\nRestart=on-failure\nRestartSec=5\n"
      "KillMode=process\nDelegate=yes\nDelegateSubgroup={}\n{}\n[Install]\nWantedBy=default."
      "target\n",
      unit_quoted(*executable, true), os::kCgroupLeaf, environment);
  Result<void> written = os::make_dirs(os::parent_of(path), 0755);
  if (written) written = os::write_file_atomic(path, unit, 0644, false);
  if (!written) return fail(written.error());
  say(
      fmt::format("wrote {}\n"
                  "now:\n"
                  "  pergpu coordinator stop   # the unit's takes over; jobs keep running\n"
                  "  systemctl --user daemon-reload\n"
                  "  systemctl --user enable --now pergpu.service\n"
                  "  loginctl enable-linger    # start at boot and stay after a logout",
                  path));
  return kOk;
}

}  // namespace

void add_coordinator(CLI::App& program, Invocation& invocation) {
  CLI::App* command =
      program.add_subcommand("coordinator", "check, start, stop or enable the background process");
  command->require_subcommand(1);
  command->footer("Example:\n  pergpu coordinator status");

  const auto add_status = [&](const char* name, const char* summary, Client::Start start) {
    auto options = std::make_shared<StatusOptions>();
    CLI::App* shows = command->add_subcommand(name, summary);
    shows->add_flag("--json", options->as_json, "print one JSON value to stdout");
    if (start == Client::Start::IfNeeded) {
      shows
          ->add_flag("--unless-stopped", options->unless_stopped,
                     "fail if the last one was stopped")
          ->group("");
    }
    shows->footer(fmt::format("Example:\n  pergpu coordinator {} --json", name));
    shows->callback([options, start, &invocation] {
      invocation.action = [options, start] { return status(*options, start); };
    });
  };
  add_status("status", "show whether a coordinator is running, and its state",
             Client::Start::Never);
  add_status("start", "start a coordinator unless one is running; show its state",
             Client::Start::IfNeeded);

  auto stop = std::make_shared<StopOptions>();
  CLI::App* stop_command = command->add_subcommand(
      "stop", "stop the coordinator and wait until it has stopped; running jobs continue");
  stop_command->add_flag("--kill", stop->kill, "end all running jobs first");
  stop_command->add_flag("--json", stop->as_json, "print one JSON value to stdout");
  stop_command->footer("Example:\n  pergpu coordinator stop");
  stop_command->callback(
      [stop, &invocation] { invocation.action = [stop] { return stop_coordinator(*stop); }; });

  CLI::App* enable_command = command->add_subcommand(
      "enable", "write a systemd user unit that continues the queue after a reboot");
  enable_command->footer("Example:\n  pergpu coordinator enable");
  enable_command->callback([&invocation] { invocation.action = enable; });

  auto options = std::make_shared<CoordinatorRunOptions>();
  CLI::App* run_command =
      command->add_subcommand("run", "run the coordinator in this process")->group("");
  run_command->add_flag("--foreground", options->foreground,
                        "run as a service: stay even if there is nothing to do");
  run_command->add_flag("--asked-for", options->was_asked_for,
                        "started by a command: start even if the last one was stopped");
  run_command->add_option("--succeed", options->succeeds, "process to take over from");
  run_command->callback([options, &invocation] {
    invocation.action = [options] { return run_coordinator(*options); };
  });
}

void add_probe(CLI::App& program, Invocation& invocation) {
  CLI::App* command = program.add_subcommand("probe", "read the GPUs")->group("");
  command->callback([&invocation] { invocation.action = [] { return gpu::probe_main(0, 1); }; });
}

void add_stacks(CLI::App& program, Invocation& invocation) {
  auto below = std::make_shared<std::int32_t>(0);
  auto out = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand("stacks", "write the stacks of a job's processes")->group("");
  command->add_option("--below", *below, "process whose descendants to look at")->required();
  command->add_option("--out", *out, "file")->required();
  command->callback([below, out, &invocation] {
    invocation.action = [below, out] {
      const Result<void> written = write_stacks(*below, *out);
      return written ? static_cast<int>(kOk) : fail(written.error());
    };
  });
}

}  // namespace pergpu::cli
