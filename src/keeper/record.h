// Writing k<ID>.rec: what a keeper would say if it were asked, for the case that it is killed.
// read_record() of keeper/protocol.h is the other half.
//
// A file of fixed slots, each written with one pwrite and checked by a checksum, so that a kill
// between two instructions leaves the old slot or the new one.  Not synced: after a power cut no
// process of the boot is left.  The boot's id is part of the checksum, because pids and start times
// of another boot may be other processes' in this one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keeper/protocol.h"
#include "os/fd.h"

namespace pergpu::keeper {

class RecordFile {
 public:
  /// Creates an empty record.  A record that cannot be written is worked without: its loss makes an
  /// outcome `lost` instead of known, nothing worse.
  RecordFile(const std::string& path, std::string boot_id);

  /// `path` leads to it.
  bool is_at(const std::string& path) const;

  /// Stores `held` in the slot of its attempt.
  void put(AttemptId id, const Held& held);
  void remove(AttemptId id);

 private:
  struct Slot {
    AttemptId id = {};
    bool used = false;
  };
  void write(std::size_t slot, const std::string& payload);

  std::string boot_id_;
  os::UniqueFd fd_;
  std::vector<Slot> slots_;
};

}  // namespace pergpu::keeper
