// Variables by which CUDA finds the MPS daemon of a GPU.
#pragma once

namespace pergpu {

/// The folder with the daemon's sockets.
inline constexpr char kMpsPipeName[] = "CUDA_MPS_PIPE_DIRECTORY";
inline constexpr char kMpsLogName[] = "CUDA_MPS_LOG_DIRECTORY";

}  // namespace pergpu
