// What a notification reports, as facts: the helper that sends it makes words of them
// (view/export/notice.h), because that reads metrics files and may take its time.
#pragma once

#include <string>

#include "coordinator/coordinator.h"
#include "notify/notices.h"

namespace pergpu {

/// {"channel":{…},"env_file":"…","notice":{…}}.  Bounded, however many jobs the sweep has.  No
/// value of the environment is in it.
NoticeRequest notice_request(const Coordinator& coordinator, const std::string& env_file,
                             const Sweep& sweep, const NotifyChannel& channel,
                             const NoticeDebt& debt);

}  // namespace pergpu
