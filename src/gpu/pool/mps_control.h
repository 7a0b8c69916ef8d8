// NVIDIA's Multi-Process Service: with it kernels of several processes run on a GPU at the same
// time, instead of in turns.  A daemon for each GPU, of this user and in its own folder, is started
// and ended by us; what is said to it goes through its own program, nvidia-cuda-mps-control, whose
// commands are those of NVIDIA's manual ("Multi-Process Service", appendix "Common tasks").
//
// A daemon starts a server with its first client.  Where a client's process is killed in a kernel,
// all clients of that GPU end: it has to be disconnected before (docs/measurements.md).
//
// Everything here waits for another program.  The deciding thread must not come here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu {

/// Where the daemon of a GPU has its sockets and its log, below `root`.  Short: a socket's path may
/// have 107 bytes.
std::string mps_folder(const std::string& root, const std::string& gpu);
/// What the sockets of MPS need behind the folder in which "mps" lies.
inline constexpr std::size_t kMpsRoom = 40;

/// $PERGPU_MPS_CONTROL, else nvidia-cuda-mps-control in PATH; "": this machine has none.
std::string find_mps_control();

/// The processes of an attempt: those that descend from one of these.
using TreeRoots = std::vector<std::int32_t>;

class MpsControl {
 public:
  /// `program`: see find_mps_control().
  explicit MpsControl(std::string program) : program_(std::move(program)) {}

  /// Its process, when it answers; nothing is started where one does already.
  Result<std::int32_t> start(const std::string& folder, const std::string& gpu) const;
  /// The daemon of this folder, with its server, is gone, and the folder too.
  Result<void> stop(const std::string& folder) const;

  enum class Whom : std::uint8_t {
    All,
    WouldDie,  // of a SIGTERM, for which they have no handler
  };
  /// Disconnects the clients of an attempt: their next call of CUDA fails, and no other's.  All are
  /// tried; the first error is returned.
  Result<void> disconnect(const std::string& folder, const TreeRoots& roots, Whom whom) const;
  /// Whether one of the attempt's processes is a client.
  Result<bool> has_client(const std::string& folder, const TreeRoots& roots) const;

 private:
  struct Client {
    std::int32_t server = 0;
    std::int32_t pid = 0;
  };
  Result<void> launch(const std::string& folder, const std::string& gpu) const;
  Result<std::vector<Client>> clients_of(const std::string& folder, const TreeRoots& roots) const;
  Result<std::string> ask(const std::string& folder, const std::string& command) const;

  std::string program_;
};

/// The daemon whose folder this is; 0: none lives.
std::int32_t mps_daemon(const std::string& folder);

}  // namespace pergpu
