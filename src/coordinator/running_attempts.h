// Live attempts as a forecast takes them.
#pragma once

#include <map>

#include "coordinator/coordinator.h"
#include "forecast/forecast_input.h"

namespace pergpu {

std::map<JobId, RunningAttempt> running_attempts(const std::map<JobId, LiveAttempt>& live);

}  // namespace pergpu
