// One message through one channel of a [notify], waiting for what comes of it.
#pragma once

#include <string>
#include <vector>

#include "result.h"
#include "spec/sweep/notify.h"
#include "spec/sweep/sweep.h"
#include "view/export/notice.h"

namespace pergpu::cli {

/// NAME=value, complete: what `$NAME` stands for, and the environment of hook and curl.
using Environment = std::vector<std::string>;

/// What came back ("HTTP 200"), or why it did not arrive.  Neither holds a value that `$NAME` stood
/// for.  `folder` is where a command runs.
Result<std::string> send_notice(const NotifyChannel& channel, const std::string& folder,
                                const Environment& environment, const view::Notice& notice,
                                const view::Message& message);

/// Before a submit.  Invalid: a variable that is not set, or holds what cannot be sent to.
/// Otherwise warnings: what could not be sent on this machine as it is.
Result<std::vector<std::string>> check_notify(const SweepSpec& sweep,
                                              const Environment& environment);

}  // namespace pergpu::cli
