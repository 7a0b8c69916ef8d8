// k<ID>.rec: what a keeper would say if it were asked, for the case that it is killed.
//
// A file of fixed slots, each written with one pwrite and checked by a checksum, so that a kill
// between two instructions leaves the old slot or the new one.  Not synced: after a power cut no
// process of the boot is left, and the record of another boot is worth nothing.
#pragma once

#include <string>
#include <vector>

#include "keeper/protocol.h"
#include "os/fd.h"

namespace pergpu::keeper {

/// "<run folder>/k7", "/k7.rec", "/n7".
std::string socket_path(const std::string& run_folder, std::int64_t keeper);
std::string record_path(const std::string& run_folder, std::int64_t keeper);
std::string notify_path(const std::string& run_folder, std::int64_t keeper);

class RecordFile {
 public:
  /// Creates an empty record.  A record that cannot be written is worked without: its loss makes an
  /// outcome `lost` instead of known, nothing worse.
  explicit RecordFile(const std::string& path);

  /// Stores `held` in the slot of its attempt.
  void put(AttemptId id, const Held& held);
  void remove(AttemptId id);

 private:
  struct Slot {
    AttemptId id = {};
    bool used = false;
  };
  void write(std::size_t slot, const std::string& payload);

  os::UniqueFd fd_;
  std::vector<Slot> slots_;
};

/// Everything that can be read from a record; empty when there is none.
std::vector<Held> read_record(const std::string& path);

/// Which attempt `held` is about.
AttemptId id_of(const Held& held);

}  // namespace pergpu::keeper
