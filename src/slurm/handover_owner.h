// Who decides for what was handed over: of all coordinators of a user, on whichever machine, one.
//
// Two kinds of files on the shared file system say so:
//   .slurm/owner         for a whole sweep: the one where it was submitted last
//   .slurm/<key>/owner   for one handover: who made it, or has taken it over
// Who takes a sweep over writes the first, then looks through the handovers; who hands over writes
// its handover, then looks at the first.  So one of the two sees the other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "result.h"

namespace pergpu {

inline constexpr char kOwner[] = "owner";

/// A file of a line or two: "host:home", "new".
struct Owner {
  std::string who = {};
  bool is_new = false;  // not all that came of it is in that one's store yet
  bool operator==(const Owner&) const = default;
};
std::string to_text(const Owner& owner);
/// "login2:/var/tmp/pergpu-1000" for people.
std::string words_of_owner(const std::string& who);

/// Of the files of handovers: users whom the sweep's umask lets can read them, and no other user
/// can write them, for a task reads no commands that others may have written (os::Writer::User).
constexpr mode_t handover_mode(std::int64_t umask) { return static_cast<mode_t>(0644 & ~umask); }

// Every call blocks.

/// Of the handover in this folder; nullopt: it is not written yet, so Slurm was not asked.
Result<std::optional<Owner>> owner_of(const std::string& folder);

/// Who decides for the sweep whose handovers are in this folder; "": not known.
Result<std::string> claimant_of(const std::string& root);
/// From now on it is `who`.
Result<void> claim(const std::string& root, const std::string& who, std::int64_t umask);
/// Busy, with the other's name as message: it is not `who` any more.  Unavailable: it cannot be
/// read.
Result<void> check_claim(const std::string& root, const std::string& who);

}  // namespace pergpu
