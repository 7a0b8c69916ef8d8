// What starts the coordinator after a reboot, from systemd or cron, which have no variable of this
// shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::cli {

/// The variables of this shell that decide where home and GPU locks are, as NAME=VALUE.  Paths are
/// absolute: a relative one would mean another folder there.
Result<std::vector<std::string>> environment_after_reboot();

/// "@reboot PERGPU_HOME=/data/pergpu /opt/bin/pergpu ps": a line of a crontab.  `program` is an
/// absolute path, because cron has a short PATH.
std::string cron_line(std::string_view program, const std::vector<std::string>& environment);

}  // namespace pergpu::cli
