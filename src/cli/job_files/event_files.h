// The event files that a job wrote for TensorBoard, on disk.
#pragma once

#include <cstdint>
#include <string>

#include "view/model/tensorboard.h"

namespace pergpu::cli {

struct EventFile {
  std::string path = {};        // "": there is none
  std::int64_t written_at = 0;  // wall-clock nanoseconds of its last change
};

/// The one below `folder` that changed last.  Symbolic links are not followed, folders five levels
/// below are not entered, and of very many entries the first are looked at.
EventFile newest_event_file(const std::string& folder);

/// Of large records only the heads are read.  Empty where more than 64 MiB would have to be: what
/// was newest in the beginning of a file is not what is newest.
view::NewestScalars newest_scalars(const std::string& path);

}  // namespace pergpu::cli
