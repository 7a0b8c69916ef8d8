// A file that no folder names: what two processes read and write by its descriptor.
#pragma once

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

/// In memory; where the kernel can't, in a folder for temporary files.
Result<UniqueFd> make_unnamed_file();

}  // namespace pergpu::os
