// The folder of an attempt: made, files written, the previous attempt's log and record moved aside.
//
// Making and writing can be repeated at any time, also while the attempt runs: PREPARE does it
// ahead, perhaps at another keeper than START and, since two sockets have no order, perhaps after
// it.  Taking the folder is START's alone, once per attempt.
//
// The folder is opened once, below the sweep's output root, and all that a START does is done in
// the open folder: others may rename what lies in the root.
//
// Only who has the folder's lock (os/fs/folder_lock.h) takes it and replaces files in it: START
// gets it for the attempt's process tree.  PREPARE writes what is not there yet, and no more.
//
// Whose log.txt is it?  attempt.json lies beside it and names job, attempt and home: another
// attempt of the same job becomes log.N.txt and attempt.N.json, another job's log.old.txt and
// attempt.old.json.  Only where the folder held neither may attempt.json be missing for a while
// (keeper.cc writes it later): then the log is of the job's attempt before.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/protocol.h"
#include "os/fs/folder_lock.h"
#include "os/fs/folder_walk.h"
#include "result.h"

namespace pergpu::keeper {

/// Which step of the set-up failed; becomes SPAWN_FAILED.
struct SetupFailure {
  std::string phase = {};  // "mkdir", "rename", "write", "open log"
  int os_errno = 0;
  std::string object = {};
};

/// Makes the folder if need be, and what is missing above it.  A link on the way from the root is
/// followed only where no other user can write (os/fs/folder_walk.h).
/// ErrorKind::Busy: the root is another folder than the one that was noted.
Result<os::HeldFolder> make_folder(const Folder& folder, const Root& root);

/// Writes the files of a folder that make_folder() has made.
std::optional<SetupFailure> prepare_folder(const Folder& folder, const os::HeldFolder& out);

/// The disk of the folder, which is there, is full: what starts on it can't even write its log.
/// That of an attempt before, and its files, stay where they are.
std::optional<SetupFailure> lacks_room(const Folder& folder);

/// None of the files that prepare_folder() wrote has been removed since.
bool is_prepared_still(const Folder& folder, const os::HeldFolder& out);
/// As make_folder() and prepare_folder(), without the right to the folder: files that are there
/// stay as they are.  False: some of it is left to those two.
bool prepare_ahead(const Folder& folder, const Root& root = {});

struct Claim {
  // Phase kFolderInUse: `object` is by whom; kRootReplaced: nothing was touched.
  std::optional<SetupFailure> failure = std::nullopt;
  os::FolderLock lock = {};
  std::optional<os::HeldFolder> out = std::nullopt;  // there unless it failed
};
/// Makes the folder if need be, and gets the right to it.
Claim claim_folder(const Start& start);

/// No attempt has left a log or a record there.
bool is_fresh(const Start& start, const os::HeldFolder& out);

struct Taken {
  std::optional<SetupFailure> failure = std::nullopt;
  bool was_fresh =
      false;  // held no log and no record: this attempt's record is still to be written
};
/// Moves an earlier attempt's log and record aside and, unless the folder was fresh, writes this
/// one's record; a full or failing disk is a failure.  REQUIRES: the attempt has not started.
Taken take_folder(const Start& start, const os::HeldFolder& out);

/// attempt.json as it is at the start.  A record that cannot be written is no reason to end a job.
Result<void> write_record(const Start& start, const os::HeldFolder& out);
/// The same, for a caller that doesn't hold the folder.
Result<void> write_record(const Start& start);

/// The same for an attempt that has ended, under its number where another has followed it.  Writes
/// nothing where that attempt has a record already.
void write_late_record(const Start& start);

/// Writes the record of an end to attempt.json, or to where that attempt's record was moved since,
/// and removes the locks' files that no attempt holds.  A record that has an end already stays.
/// Nothing is done for an attempt without a record.
std::optional<SetupFailure> leave_folder(const Forget& forget);

/// What the beginning of a record says (run/record.h writes these keys first).
struct RecordHead {
  AttemptId id = {};
  bool has_ended = false;
  std::string home = {};  // as it is written there; "": not told
};
/// nullopt when it is not a record.
std::optional<RecordHead> record_head(std::string_view text);

}  // namespace pergpu::keeper
