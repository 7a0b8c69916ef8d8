// What processes ask of the meeting place (meeting_place.h): one frame -> one request.  Pure.
//
// The protocol (Unix socket `share.sock` in the run folder; jobs find it by PERGPU_SHARE).  Frames
// as in os/ipc/socket.h, type 'q' asks and type 'a' answers, the payload is one JSON object; one
// request at a time on a connection:
//   {"op":"get","name":"data-0af3…","title":"tokens","scope":"user"|"sweep","job":17,"keep":bool}
//        -> {"is":"here"} and a descriptor of it
//        -> {"is":"yours"}: it does not exist.  The receiver makes it and says "put", or closes
//           the connection; until then the others wait
//        -> {"is":"awaited","pid":4711}: that process makes it, and another answer follows
//        -> {"is":"no","why":"…"}: it cannot be held; processes have to meet without us
//      "name" is a kind, "-" and a hash of the key in 32 hexadecimal digits: memory of this name is
//      "pergpu:" and it.  "title" is the key, for people.  With "scope":"sweep" it is held while
//      the sweep of "job" has a job that can still run, else while a process lives that got or made
//      it; with "keep":true until it is dropped.  "other":true on the connection that was given it
//      last: that was something else of the same name, and is to be replaced
//   {"op":"put"} and its descriptor, from the process that got "yours" -> {"is":"held"}, or "no"
//   {"op":"list"} -> {"is":"list","pid":…,"segments":[{"name","title","bytes","made_at","keep",
//                     "sweeps":[{"id","sweep"}],"device","inode"}…]}
//   {"op":"drop","what":"tokens"} -> {"is":"dropped","names":[…]}: of this title or name; only the
//        processes that have these hold them any more
// All else is answered by {"is":"wrong","why":"…"}, and the connection is closed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ids.h"
#include "result.h"

namespace pergpu {

inline constexpr std::uint8_t kMeetingAsks = 'q';
inline constexpr std::uint8_t kMeetingAnswers = 'a';
/// Of one request.
inline constexpr std::size_t kMostMeetingBytes = 64u << 10;

/// Path of the socket.
inline std::string meeting_socket(const std::string& run_dir) { return run_dir + "/share.sock"; }

struct MeetingRequest {
  enum class Op : std::uint8_t { Get, Put, List, Drop };
  enum class Scope : std::uint8_t { User, Sweep };
  Op op = Op::List;
  // Get:
  std::string name = {};
  std::string title = {};
  Scope scope = Scope::User;
  JobId job = {};  // of Scope::Sweep
  bool keep = false;
  bool other = false;
  // Drop:
  std::string what = {};
};

/// ErrorKind::Invalid: what is wrong with it.
Result<MeetingRequest> meeting_request_of(std::string_view text);

/// "data-" and 32 hexadecimal digits, say.
bool is_meeting_name(std::string_view name);

}  // namespace pergpu
