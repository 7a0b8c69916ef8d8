// Events as JSON: the `body` column of the journal.  The kind of an event has its own column
// (event_name()).  Members that have their default value are left out.
//
// Rules for later versions: members can be added (with a default that means "as before"), never
// renamed and never given another meaning; unknown members are ignored.
#pragma once

#include <string>
#include <string_view>

#include "job/event.h"
#include "result.h"

namespace pergpu::store {

std::string event_body(const JobEvent& event);

/// ErrorKind::Corrupt for an unknown kind or a body that makes no sense; the message names the kind
/// and the member, the caller adds the row.
Result<JobEvent> event_of(std::string_view kind, std::string_view body);

}  // namespace pergpu::store
