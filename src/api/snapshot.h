// What the coordinator sends its clients: plain values, and their JSON.  The only header of
// coordinator/ that view/ may include.  Field names on the wire are the member names unless a
// comment says otherwise; absent optionals are JSON null; instants are RFC 3339 UTC strings on the
// wire ("2026-11-21T13:00:00.123Z"), wall-clock nanoseconds here (0: not yet).
//
// The protocol (Unix socket `coordinator.sock` in the run folder, one JSON value a line):
//   client: {"hello":1,"version":"0.2.0"}
//   server: {"ok":true,"data":{"protocol":1,"version":"0.2.0","pid":4711,"home":"/…",
//           "reach":{…},"replaceable":bool}}: what it can give to jobs (api/shell.h), and
//           whether a client may start another one in its place that can give more
// then any number of requests, answered in order with {"ok":true,"data":…} or
// {"ok":false,"code":<exit code>,"error":"…"}:
//   {"op":"submit","sweep":<spec/wire>,"runs":N,"context":SubmitContext} + N lines (RunSpec)
//        -> SubmitReply, which names the jobs of these N runs (and of once-steps).  With "add":true
//           in the context the sweep keeps its other runs as they are; refused where the steps are
//           not those of the sweep, or one looks at all runs
//   {"op":"ps","sel":[…],"all":bool}            -> {"schema":1,"jobs":[JobSnapshot…]}; with
//           "older":true, also of "show" and "why", the live older versions of the jobs, too
//   {"op":"show","sel":[…]}                     -> {"schema":1,"jobs":[JobSnapshot + "params",
//   "command", …]}; the client adds "attempts" and "argv" from the records in the job's folder
//   {"op":"why","sel":[…]}                      ->
//   {"schema":1,"jobs":[{"id","name","state","why"}…]}
//   {"op":"cancel"|"hold"|"release"|"retry","sel":[…],"failed":bool,"kill":bool}
//        -> {"schema":1,"changed":[ids],"unchanged":[ids],"left":[{"id","state","replaced","name"}
//           …],"named":[{"id","name"}…]}: what is left is as it was; "named" are the first that
//           were changed.  "cancel" with "queued":true leaves what is live, too.  "name" is what
//           selects the job: "thirteen/3/train".  "sweeps":[names] of what was changed.  Of
//           "retry" also "files":[{"file","submitted_at"}…], the sweep files of what was changed;
//           the client shows which of them were modified since
//   {"op":"set","sel":[…],"set":["priority=5",…]} -> the same, and
//           "settings":[{"of","key","from","to"}…]
//   {"op":"clean","sel":[…],"older_s":N,"results":bool,"take":bool}
//        ->
//        {"schema":1,"sweeps":[{"id","sweep","jobs","ended_at","folder","aside","runs"}…],"left":
//           [{"id","sweep","why"}…],"others":[folders of all other sweeps],"aside":
//           [{"id","folder"}…]}: what may go.  With "take" it is forgotten; with "results" not yet,
//           but nothing of it begins again, nor is submitted into its folder, until the client
//           leaves or has said "cleaned".  It says for each sweep {"op":"moving","sweep_id":N} ->
//           {}, moves the folders of `runs` into `aside`, and says {"op":"moved","sweep_id":N} ->
//           {}: it is forgotten.  When that is done for all it removes them, as well as what
//           earlier clients left in "aside", and says for each {"op":"cleaned","sweep_id":N} -> {};
//           the same where nothing was moved after all.  "runs", "others" and the last "aside" are
//           those of "results"
//   {"op":"wait","sel":[…]}                     -> when all of them are ended or held:
//   {"schema":1,"jobs":[…]}
//   {"op":"watch","sweep_id":N} | {"op":"watch","sel":[…]}
//        -> a stream: first {"event":"snapshot","sweep":SweepSnapshot,"jobs":[…],"lanes":[…]}, then
//           {"event":"job","job":JobSnapshot} as they change, {"event":"sweep","sweep":…} and
//           {"event":"lanes","lanes":[…]} at most once a second, {"event":"remaining",
//           "remaining_s":…} when the expected end moves, and {"event":"end"} when nothing of it is
//           queued or live.  With "most":N it is refused where there are more jobs than
//           that; with "without_runs":true "rows" and "runs" of the snapshot are empty, with
//           "without_jobs":true "jobs" of it.  With "sweep_id" and "grows":true jobs that the sweep
//           gets later are told as well, and it has no end
//   {"op":"watch","all":true}
//        -> a stream of everything, bounded by kMost… below: first {"event":"snapshot","all":true,
//           "jobs":[JobSnapshot…],"sweeps":[SweepSummary…],"counts":{state:n}} with the fields of
//           "gpus"; then {"event":"changes","jobs":[those that changed or came in],"gone":[ids of
//           those that are no longer among the jobs shown]}, with "sweeps" and "counts" where these
//           changed, at most four a second, but for parts of 200 jobs where more have changed, and
//           {"event":"devices", fields of "gpus"} when these changed, at most once a second.  It
//           has no end.
//   {"op":"interrupt","sweep_id":N,"level":1|2|3} -> {"running":n,"held":n}   (Ctrl-C)
//   {"op":"usage","job":17,"attempt":2,"from":"2026-…Z","step":10} -> {"schema":1,"job":17,
//   "attempt":2,"step_s":10,"buckets":[{"at":…,"readings":10,"cores":[least,mean,most],…,
//   "throttle":[…]}…]}: what an attempt used, the newest one by default.  A measure that is not
//   there is unknown.  from: null for all.  step: 1, 10 or 60 s; absent: the narrowest that reach
//   back to `from`.  Of an attempt that is over there are minutes only (docs/telemetry.md)
//   {"op":"gpus"}                               -> {"schema":1,"gpus":[GpuSnapshot…],"lanes":[…]}
//   {"op":"gpus","release":"0,GPU-5a"}          -> {"schema":1,"released":[UUIDs]}: their
//   quarantine is over
//   {"op":"status"}                             ->
//   {"schema":1,"pid":…,"version":…,"home":…,"socket":…,"sweeps":…, "queued":…, "live":…, …}
//   {"op":"stop","kill":bool}                   -> {} and it leaves; jobs go on unless kill
//   {"op":"backup","file":path}                 -> {"schema":1,"bytes":N}: the copy is durable;
//                                                  path: by store/copies.h, in the home
//   {"op":"complete","sel":[begin…]}            -> {"schema":1,"words":[{"word","meaning"}…]}: what
//                                                  selectors that begin so may become
//   {"op":"dry_run", same as submit}            -> SubmitPreview: nothing is recorded
//   {"op":"plan", same as submit, or "sel":[…], "expect":{step:ms}, "on":N}
//        -> the schedule that is to be expected (docs/plan.md), or {"missing":[…]}: steps whose
//           durations are not known.  Nothing is recorded
// `sel` is a list of selectors as typed (docs/commands.md), [] means all of the latest sweep… of
// each op's default.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/process/process_attributes.h"
#include "result.h"

namespace pergpu {

/// Path of the coordinator's socket.
inline std::string coordinator_socket(const std::string& run_dir) {
  return run_dir + "/coordinator.sock";
}

struct JobSnapshot {
  std::int64_t id = 0;
  std::string sweep = {};
  std::int64_t sweep_id = 0;
  std::string run = {};                              // folder name; "" for a once-step's job
  std::optional<std::int64_t> index = std::nullopt;  // null for a once-step's job
  std::string step = {};
  std::string state = {};                         // "queued", …
  std::string reason = {};                        // in plain words, never empty unless done
  std::optional<std::string> cls = std::nullopt;  // "class" on the wire
  std::int64_t attempt = 0;                       // 0: never started
  std::optional<int> exit = std::nullopt;
  std::optional<int> signal = std::nullopt;
  std::vector<std::string> gpus = {};
  std::optional<std::string> lane = std::nullopt;  // of several the first
  std::vector<std::string> lanes = {};             // all that it has
  std::optional<std::string> node = std::nullopt;  // of a cluster; null: this machine, or none yet
  std::int64_t queued_at = 0;
  std::int64_t started_at = 0;
  std::int64_t ended_at = 0;
  std::optional<double> duration_s = std::nullopt;  // of the newest attempt, so far or in all
  std::optional<double> expected_s = std::nullopt;  // of a whole attempt
  std::int64_t expected_end_at = 0;                 // while it is open and that is known
  std::string out = {};                             // absolute
  std::string log = {};                             // absolute; the newest attempt's
  std::string metrics = {};   // absolute path of metrics.jsonl (may not exist)
  std::string status = {};    // STATUS= of PERGPU_NOTIFY
  std::string progress = {};  // PROGRESS= "3/10"
  std::int64_t retries_left = 0;
  bool replaced = false;  // an older version of the job: its definition has changed since
  bool listed = true;     // its row and its step are in the sweep's file
  std::vector<std::string> warnings = {};  // "train.py changed since the first start of this step"
  // What a live one uses, by the newest reading; null: not known.
  std::optional<double> cores = std::nullopt;
  std::optional<std::int64_t> resident_bytes = std::nullopt;
  std::optional<double> gpu_busy_percent = std::nullopt;
  std::optional<std::int64_t> gpu_memory_bytes = std::nullopt;
};

struct SweepSnapshot {
  std::int64_t id = 0;
  std::string name = {};
  std::string root = {};
  std::vector<std::string> steps = {};
  std::vector<std::string> columns = {};            // parameters that differ between the runs
  std::vector<std::vector<std::string>> rows = {};  // per run index: their texts
  std::vector<std::string> runs = {};               // per run index: folder name
  /// state -> jobs: the current versions, and older ones that are live.
  std::map<std::string, std::int64_t> counts = {};
  std::int64_t lanes = 0;                            // lanes its jobs can use at once
  std::optional<double> remaining_s = std::nullopt;  // expected, while it is open and that is known
  std::vector<std::string> warnings = {};
};

/// What a watcher of everything is shown of jobs: the live ones, of the queued and of the held the
/// first by number, of the ended the last.
inline constexpr std::size_t kMostLiveShown = 2'000;
inline constexpr std::size_t kMostShownOfAState = 200;  // queued, held, all ended ones
/// Of sweeps: the newest ones with open jobs, and of the others the newest 20.
inline constexpr std::size_t kMostSweepsShown = 100;
inline constexpr std::size_t kMostEndedSweepsShown = 20;

/// A sweep in a few bytes, however many runs it has.
struct SweepSummary {
  std::int64_t id = 0;
  std::string name = {};
  /// state -> jobs: the current versions of listed rows, and all others that are live.
  std::map<std::string, std::int64_t> counts = {};
  std::int64_t lanes = 0;  // its own CPU lanes (--lanes); 0: none
};

struct LaneSnapshot {
  std::string name = {};   // "gpu0", "cpu3", "lane5"
  std::string uuid = {};   // GPUs only
  std::string state = {};  // "free", "busy", "dirty", "foreign", "leased", "unknown", "quarantined"
  std::string why = {};
  std::optional<std::int64_t> job = std::nullopt;
  std::optional<double> idle_s = std::nullopt;  // without an attempt, since the coordinator began
  std::optional<double> idle_now_s = std::nullopt;  // for how long; null: it has one, or not known
};

struct GpuHolder {
  std::int64_t pid = 0;
  std::string user = {};
  std::string command = {};
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  std::optional<std::int64_t> job = std::nullopt;  // ours
};

struct GpuSnapshot {
  std::string uuid = {};
  std::int64_t index = 0;
  std::optional<std::int64_t> instance = std::nullopt;  // of a GPU that is cut (MIG)
  std::string name = {};
  std::string pci = {};
  std::string state = {};  // as LaneSnapshot::state
  std::string why = {};
  std::vector<std::string> lanes = {};
  std::int64_t memory_bytes = 0;
  std::int64_t used_bytes = 0;
  std::vector<GpuHolder> holders = {};
  // What it is doing, while one of our jobs runs on it; null: not known.
  std::optional<double> busy_percent = std::nullopt;
  std::optional<double> power_w = std::nullopt;
  std::optional<double> temperature_c = std::nullopt;
  std::optional<double> clock_mhz = std::nullopt;
  std::vector<std::string> throttle = {};  // why it is slower than it could be: "power-cap", …
};

/// SubmitContext::engine of sweeps that a cluster runs.
inline constexpr char kSlurm[] = "slurm";

/// Everything of the submitting shell that the jobs need (docs/jobs.md).
struct SubmitContext {
  std::string cwd = {};
  std::int64_t umask = 022;
  std::vector<std::pair<int, std::uint64_t>> limits = {};  // soft limits (resource, value)
  std::optional<os::ProcessAttributes> shell = {};         // nullopt: of an earlier release
  std::vector<std::string> env = {};                       // NAME=value; kept in one file only
  std::int64_t lanes = 0;                                  // --lanes; 0: none
  std::string devices = {};  // --devices or CUDA_VISIBLE_DEVICES; "" all
  std::string engine = "local";
  bool rerun = false;
  bool only_new = false;
  bool add = false;          // rows that the file does not name stay, and stay listed
  bool unique_name = false;  // `run -- …` without --name: make the name unique ("true-2")
  bool overrides = false;    // -p NAME=VALUE was given: the sweep's other rows must not be dropped
  /// Of "lanes", "devices" and "on": what was not given, and is that of the last submit.
  std::vector<std::string> inherit = {};
  bool devices_given = false;  // `devices` comes from --devices, not from the environment
  std::string git_commit = {};
  bool git_dirty = false;
  std::string key = {};  // idempotency: the same key again gives the same reply
};

struct SubmitReply {
  std::string sweep = {};
  std::int64_t sweep_id = 0;
  std::vector<std::int64_t> jobs = {};
  std::int64_t fresh = 0;     // "new" on the wire
  std::int64_t kept = 0;      // done or going on as they are
  std::int64_t requeued = 0;  // failed, cancelled … queued again
  std::int64_t dropped = 0;   // no longer in the file
  std::int64_t others = 0;    // of rows that it does not name, and that stay (--add, -p)
  std::vector<std::int64_t> old_running = {};  // live jobs of the file as it was before
  std::vector<std::string> remembered = {};    // "--lanes 4": options of the last submit
  std::vector<std::string> warnings = {};
  std::int64_t outputs_gone = 0;  // of the requeued: done ones whose outputs are not there any more
};

/// A job that would start at once.
struct StartSnapshot {
  std::optional<std::int64_t> id = std::nullopt;  // null: a new job
  std::string run = {};                           // folder name; "" for a once-step's job
  std::string step = {};
  std::string lane = {};
};

/// Jobs that could start as far as their needs go, and that would wait for the same thing.
struct WaitSnapshot {
  std::string step = {};
  std::int64_t jobs = 0;
  std::string why = {};
};

/// An array of tasks that would be submitted to a cluster.
struct ArraySnapshot {
  std::string name = {};  // "ARRAY_1": it has no number yet
  std::string step = {};
  std::int64_t tasks = 0;
  std::int64_t jobs = 0;
  std::string script = {};
};

/// What a submit would do.
struct SubmitPreview {
  SubmitReply reply = {};                  // on the wire: its fields beside ours
  std::vector<std::string> runs = {};      // folder name of each row of the file
  std::vector<StartSnapshot> starts = {};  // on the lanes that are free now
  std::vector<WaitSnapshot> waits = {};    // what would not start now, and why
  std::vector<ArraySnapshot> arrays = {};  // where a cluster runs it
};

void to_json(nlohmann::json& j, const JobSnapshot& v);
void from_json(const nlohmann::json& j, JobSnapshot& v);
void to_json(nlohmann::json& j, const SweepSnapshot& v);
void from_json(const nlohmann::json& j, SweepSnapshot& v);
void to_json(nlohmann::json& j, const SweepSummary& v);
void from_json(const nlohmann::json& j, SweepSummary& v);
void to_json(nlohmann::json& j, const LaneSnapshot& v);
void from_json(const nlohmann::json& j, LaneSnapshot& v);
void to_json(nlohmann::json& j, const GpuHolder& v);
void from_json(const nlohmann::json& j, GpuHolder& v);
void to_json(nlohmann::json& j, const GpuSnapshot& v);
void from_json(const nlohmann::json& j, GpuSnapshot& v);
void to_json(nlohmann::json& j, const SubmitContext& v);
void from_json(const nlohmann::json& j, SubmitContext& v);
void to_json(nlohmann::json& j, const SubmitReply& v);
void from_json(const nlohmann::json& j, SubmitReply& v);
void to_json(nlohmann::json& j, const StartSnapshot& v);
void from_json(const nlohmann::json& j, StartSnapshot& v);
void to_json(nlohmann::json& j, const WaitSnapshot& v);
void from_json(const nlohmann::json& j, WaitSnapshot& v);
void to_json(nlohmann::json& j, const ArraySnapshot& v);
void from_json(const nlohmann::json& j, ArraySnapshot& v);
void to_json(nlohmann::json& j, const SubmitPreview& v);
void from_json(const nlohmann::json& j, SubmitPreview& v);

/// "2026-11-21T13:00:00.123Z" of wall-clock nanoseconds, and back (0 when malformed).
std::string rfc3339(std::int64_t wall_ns);
std::int64_t from_rfc3339(const std::string& text);

}  // namespace pergpu
