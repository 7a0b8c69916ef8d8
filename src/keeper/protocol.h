// What a coordinator and a keeper say to each other, over the keeper's Unix stream socket.
//
// Frames: u32 little-endian payload length, u8 type, payload (keeper/wire.h).  Descriptors ride
// with the first byte of their frame; START says how many belong to it.
//
//   coordinator -> keeper                         keeper -> coordinator
//   HELLO    first frame of a connection          STATE         answer to HELLO: everything held
//   PREPARE  folder work ahead of a START         STARTED       the program runs
//   START    one attempt                          SPAWN_FAILED  nothing runs; kept until FORGET
//   STOP     end it                               EXITED        ended, tree gone; kept until FORGET
//   FORGET   its outcome is durable               MEMORY        the watched memory was passed
//   (once) QUIT     the coordinator leaves               NOTIFY        one line of the job
//   SIGNAL   ahead of a timeout or cancel         QUIET         no output, or no work either
//   YIELD    other keepers revive first
//   REBIND   its files in the run folder are gone, or the folder is another
//
// A keeper serves one connection at a time, in the order of their arrival, and reads each to its
// end before it takes the next: what a killed coordinator had sent is done before its successor's
// HELLO is answered.  START of an attempt that is held already starts nothing.
//
// Beside the socket lies a record of what the keeper holds (read_record()), for when it was killed.
//
// FROZEN.  Numbers are never reused, fields only appended, meanings never changed; a keeper of the
// previous release must understand this coordinator and the other way round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "keeper/wire.h"

namespace pergpu::keeper {

/// Raised with each field of START that has to be heeded: a keeper that says less in its STATE is
/// given nothing to start.  Neither side refuses the other for it.
///   2: Start::holder, patterns, shell
inline constexpr std::uint32_t kProtocolVersion = 2;
inline constexpr std::uint32_t kLongestPayload = 64u << 20;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kMostLeases = 64;

enum class Type : std::uint8_t {
  Hello = 1,
  Prepare = 2,
  Start = 3,
  Stop = 4,
  Forget = 5,
  Quit = 6,
  Signal = 7,
  Yield = 8,
  Rebind = 9,
  State = 65,
  Started = 66,
  SpawnFailed = 67,
  Exited = 68,
  Memory = 69,
  Notify = 70,
  Quiet = 71,
};

struct Hello {
  static constexpr Type kType = Type::Hello;
  std::uint32_t version = kProtocolVersion;
};

struct FileToWrite {
  std::string path = {};
  std::string content = {};
  bool keep_if_same = false;
};

/// The sweep's output root, in which `Folder::out` lies.
struct Root {
  std::string path = {};
  std::string note = {};  // a file (os/fs/folder_note.h) that says which folder it was; "": unknown
};

struct Folder {
  std::string out = {};
  std::int32_t attempt = 1;
  std::uint32_t umask = 022;
  std::vector<FileToWrite> files = {};
};

struct Prepare {
  static constexpr Type kType = Type::Prepare;
  Folder folder = {};
  Root root = {};
};

struct Limit {
  std::int32_t resource = 0;
  std::uint64_t soft = 0;
};

/// RLIMIT_… of the submitting shell; ~0: unlimited.
struct ShellLimit {
  std::int32_t resource = 0;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

/// What the job has of the shell that submitted it (os/process/process_attributes.h).
struct Shell {
  std::vector<ShellLimit> limits = {};
  std::int32_t nice = 0;
  std::int32_t policy = 0;
  std::int32_t rt_priority = 0;
  std::int32_t io_priority = 0;
  std::vector<std::int32_t> cpus = {};
  std::uint64_t ignored = 0;
  std::uint64_t blocked = 0;
  std::int64_t timer_slack_ns = 50'000;
  std::uint32_t personality = 0;
  std::uint32_t core_filter = 0x33;
  std::int32_t oom_score_adj = 0;
  std::uint32_t group = 0;
  std::vector<std::uint32_t> groups = {};
};

struct Start {
  static constexpr Type kType = Type::Start;
  AttemptId id = {};
  Folder folder = {};
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};
  std::string cwd = {};
  std::string log_path = {};
  std::string record_path = {};
  std::string record_at_start = {};
  std::vector<Limit> limits = {};  // where there is no `shell`
  std::vector<std::int32_t> cpu_list = {};
  std::uint32_t lease_count = 0;
  std::vector<std::string> outputs = {};
  std::uint64_t memory_bytes = 0;  // limit: held by a control group, else watched; 0: none
  std::int64_t grace_ns = 30'000'000'000;
  std::string ready_path = {};  // a line appended to this file means READY=1; empty: not watched
  std::int32_t cpu_milli = 0;   // limit in thousandths of a core, by a control group; 0: none
  std::int64_t idle_ns = 0;     // QUIET after this time without output; 0: not watched
  std::int64_t stall_ns = 0;    // the same, and without CPU time; 0: not watched
  std::string holder = {};      // who works in the folder, for those who have to wait for it
  std::vector<std::string> patterns =
      {};  // of outputs: each must match one (os/fs/expected_files.h)
  std::optional<Shell> shell = std::nullopt;  // nullopt: it has what its keeper has
  Root root = {};
};

struct Stop {
  static constexpr Type kType = Type::Stop;
  AttemptId id = {};
  bool kill = false;  // at once, without TERM and grace
};

/// To its process group, once for each attempt: a coordinator that was started again may say it
/// again.
struct Signal {
  static constexpr Type kType = Type::Signal;
  AttemptId id = {};
  std::int32_t number = 0;
};

/// This keeper has less to give to jobs than the coordinator (a lower hard limit, a higher nice
/// value), and so had a coordinator that it starts.
struct Yield {
  static constexpr Type kType = Type::Yield;
  bool yields = true;
};

/// Make again what is missing of your files in this folder.  A keeper of an earlier release passes
/// over it, and can't be found again by the next coordinator.
struct Rebind {
  static constexpr Type kType = Type::Rebind;
  std::string run_folder = {};
};

/// Also writes `final_record` to `record_path`, whether the attempt is held or not.
struct Forget {
  static constexpr Type kType = Type::Forget;
  AttemptId id = {};
  std::string record_path = {};  // empty: writes nothing
  std::string final_record = {};
  Root root = {};
};

struct Quit {
  static constexpr Type kType = Type::Quit;
  bool revive = false;  // with an attempt held: start a coordinator, as after its death
};

struct Started {
  static constexpr Type kType = Type::Started;
  AttemptId id = {};
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::vector<std::string> groups = {};  // its control groups, as folders
  std::int32_t memory_held = 0;          // limit: 1 or 2: by cgroup of that version; 0: watched
  std::int32_t cpu_held = 0;             // the same; 0: not held
};

/// Phase of SPAWN_FAILED: another process works in the folder; `object` says which.
inline constexpr std::string_view kFolderInUse = "folder in use";
/// Phase of SPAWN_FAILED (ESTALE): `object`, the root, is another folder than the one noted.
inline constexpr std::string_view kRootReplaced = "use another folder at";

struct SpawnFailed {
  static constexpr Type kType = Type::SpawnFailed;
  AttemptId id = {};
  std::string phase = {};  // "program": `object` is a whole sentence (os/process/program_trouble.h)
  std::int32_t os_errno = 0;
  std::string object = {};
};

struct Exited {
  static constexpr Type kType = Type::Exited;
  AttemptId id = {};
  std::optional<std::int32_t> exit_code = std::nullopt;
  std::optional<std::int32_t> signal = std::nullopt;
  std::int64_t cpu_ns = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::string missing_output = {};
  std::string missing_why = {};
  std::int64_t wall_ns = 0;  // when the first process was seen to end
  std::int64_t boot_ns = 0;
  std::uint64_t oom_kills = 0;  // of its processes, by the kernel for want of memory
  bool oom_at_limit = false;    // the attempt's own limit; false: the machine had none left
  // What its first process left running when it ended by itself, and was ended: how many processes,
  // and the names of some.
  std::int32_t left_count = 0;
  std::vector<std::string> left_names = {};
};

struct Memory {
  static constexpr Type kType = Type::Memory;
  AttemptId id = {};
  std::uint64_t bytes = 0;
};

/// A line of NOTIFY that is the keeper's own: what is left of the attempt although it was killed;
/// "" after it: nothing any more.  Passed over by coordinators that do not know it.
inline constexpr std::string_view kResists = "RESISTS=";

struct Notify {
  static constexpr Type kType = Type::Notify;
  AttemptId id = {};
  std::string line = {};
};

/// Nothing was written to the log for Start::idle_ns, or for Start::stall_ns in which the tree took
/// hardly any CPU time.  Said again later while it goes on.
struct Quiet {
  static constexpr Type kType = Type::Quiet;
  AttemptId id = {};
  bool is_stall = false;
  std::int64_t silent_ns = 0;  // time that the machine was suspended does not count
  std::int64_t cpu_ns = 0;     // is_stall: what the tree took since it became quiet
};

/// One attempt that a keeper holds.  Exactly one of the three is set; Exited has its Started
/// beside.
struct Held {
  std::optional<Started> started = std::nullopt;
  std::optional<SpawnFailed> failed = std::nullopt;
  std::optional<Exited> exited = std::nullopt;
};

/// The leases of the running attempt ride with it.
struct State {
  static constexpr Type kType = Type::State;
  std::uint32_t version = kProtocolVersion;
  std::int64_t keeper = 0;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::vector<Held> held = {};
  std::uint32_t lease_count = 0;
  std::string home = {};  // whose attempts it keeps; not sent by the first release
};

// ---- files of a keeper in the run folder ----

/// "<run folder>/k7": the socket.
std::string socket_path(const std::string& run_folder, std::int64_t keeper);
/// "<run folder>/k7.rec": the record.
std::string record_path(const std::string& run_folder, std::int64_t keeper);
/// "<run folder>/n7": where its job sends notify datagrams.
std::string notify_path(const std::string& run_folder, std::int64_t keeper);

/// Everything that can be read from a record of this boot; empty when there is none.
std::vector<Held> read_record(const std::string& path, std::string_view boot_id);

/// Which attempt `held` is about.
AttemptId id_of(const Held& held);

inline constexpr std::size_t kRecordSlotBytes = 2048;
/// Of one slot of a record; the boot's id is part of it.
std::uint32_t record_checksum(std::string_view boot_id, std::string_view payload);

// ---- exit codes of `pergpu-keeper --end-tree` ----

inline constexpr int kTreeGone = 0;
inline constexpr int kTreeLeft = 3;  // something still lives: waits in the kernel, or not ours

// ---- encoding ----

/// The bytes of a message without its frame header.
template <typename Message>
std::string encode(const Message& message) {
  Encoder encoder;
  fields(encoder, message);
  return encoder.take();
}

/// nullopt when the bytes are not such a message.
template <typename Message>
std::optional<Message> decode(std::string_view payload) {
  Message message;
  Decoder decoder(payload);
  fields(decoder, message);
  if (!decoder.ok()) return std::nullopt;
  return message;
}

/// A whole frame: header and payload.
template <typename Message>
std::string frame_of(const Message& message) {
  const std::string payload = encode(message);
  Encoder header;
  header(static_cast<std::uint32_t>(payload.size()), static_cast<std::uint8_t>(Message::kType));
  return header.take() + payload;
}

// The fields of each message, in wire order.  Append only.
inline void fields(auto& a, MaybeConst<AttemptId> auto& m) { a(m.job.value, m.number); }
inline void fields(auto& a, MaybeConst<Hello> auto& m) { a(m.version); }
inline void fields(auto& a, MaybeConst<FileToWrite> auto& m) {
  a(m.path, m.content, m.keep_if_same);
}
inline void fields(auto& a, MaybeConst<Folder> auto& m) { a(m.out, m.attempt, m.umask, m.files); }
inline void fields(auto& a, MaybeConst<Root> auto& m) { a(m.path, m.note); }
inline void fields(auto& a, MaybeConst<Prepare> auto& m) { a(m.folder, m.root); }
inline void fields(auto& a, MaybeConst<Limit> auto& m) { a(m.resource, m.soft); }
inline void fields(auto& a, MaybeConst<ShellLimit> auto& m) { a(m.resource, m.soft, m.hard); }
inline void fields(auto& a, MaybeConst<Shell> auto& m) {
  a(m.limits, m.nice, m.policy, m.rt_priority, m.io_priority, m.cpus, m.ignored, m.blocked);
  a(m.timer_slack_ns, m.personality, m.core_filter, m.oom_score_adj, m.group, m.groups);
}
inline void fields(auto& a, MaybeConst<Start> auto& m) {
  a(m.id, m.folder, m.argv, m.env, m.cwd, m.log_path, m.record_path, m.record_at_start);
  a(m.limits, m.cpu_list, m.lease_count, m.outputs, m.memory_bytes, m.grace_ns, m.ready_path,
    m.cpu_milli, m.idle_ns, m.stall_ns);
  a(m.holder, m.patterns, m.shell, m.root);
}
inline void fields(auto& a, MaybeConst<Stop> auto& m) { a(m.id, m.kill); }
inline void fields(auto& a, MaybeConst<Signal> auto& m) { a(m.id, m.number); }
inline void fields(auto& a, MaybeConst<Yield> auto& m) { a(m.yields); }
inline void fields(auto& a, MaybeConst<Rebind> auto& m) { a(m.run_folder); }
inline void fields(auto& a, MaybeConst<Quiet> auto& m) {
  a(m.id, m.is_stall, m.silent_ns, m.cpu_ns);
}
inline void fields(auto& a, MaybeConst<Forget> auto& m) {
  a(m.id, m.record_path, m.final_record, m.root);
}
inline void fields(auto& a, MaybeConst<Quit> auto& m) { a(m.revive); }
inline void fields(auto& a, MaybeConst<Started> auto& m) {
  a(m.id, m.pid, m.start_ticks, m.groups, m.memory_held, m.cpu_held);
}
inline void fields(auto& a, MaybeConst<SpawnFailed> auto& m) {
  a(m.id, m.phase, m.os_errno, m.object);
}
inline void fields(auto& a, MaybeConst<Exited> auto& m) {
  a(m.id, m.exit_code, m.signal, m.cpu_ns, m.peak_memory_bytes, m.missing_output, m.missing_why);
  a(m.wall_ns, m.boot_ns, m.oom_kills, m.oom_at_limit, m.left_count, m.left_names);
}
inline void fields(auto& a, MaybeConst<Memory> auto& m) { a(m.id, m.bytes); }
inline void fields(auto& a, MaybeConst<Notify> auto& m) { a(m.id, m.line); }
inline void fields(auto& a, MaybeConst<Held> auto& m) { a(m.started, m.failed, m.exited); }
inline void fields(auto& a, MaybeConst<State> auto& m) {
  a(m.version, m.keeper, m.pid, m.start_ticks, m.held, m.lease_count, m.home);
}

}  // namespace pergpu::keeper
