// The keys of [notify], and of each [[notify]].
#pragma once

#include <vector>

#include "spec/schema/known_key.h"
#include "spec/sweep/notify.h"
#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

std::vector<KnownKey> notify_keys();

/// A table or a list of tables; what is wrong is reported and left out.
std::vector<NotifySpec> read_notify(Report& report, const Node& node);

}  // namespace pergpu
