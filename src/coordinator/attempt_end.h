// What attempt.json says of the end of an attempt.
#pragma once

#include <sys/types.h>

#include <string>

#include "job/job.h"
#include "run/record.h"

namespace pergpu {

/// Of a job whose newest attempt has ended.
void tell_end(const Job& job, AttemptRecord& record);

/// For an attempt whose keeper has said nothing of its end, nor will: gives its record in this
/// folder, if it is there and open, the end and the placement that `end` has.  Blocks.
void close_record(const std::string& folder, const AttemptRecord& end, mode_t mode);

}  // namespace pergpu
