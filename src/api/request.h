// One line of a client -> what it asks for.  The protocol stands in snapshot.h.
//
// Pure, and strict: a field of another type than expected is an error that names it, never a number
// that is cut to fit.  The answer to a request that cannot be read is that error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/snapshot.h"
#include "result.h"
#include "spec/schema/settings.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

struct Request {
  enum class Op : std::uint8_t {
    Hello,
    Submit,
    DryRun,
    Plan,
    Ps,
    Show,
    Why,
    Wait,
    Watch,
    Cancel,
    Hold,
    Release,
    Retry,
    Set,
    Clean,
    Moving,
    Moved,
    Cleaned,
    Interrupt,
    Gpus,
    Usage,
    Status,
    Stop,
    Backup,
    Complete,
  };
  Op op = Op::Hello;
  std::vector<std::string> selectors = {};
  std::optional<std::int64_t> sweep_id = std::nullopt;
  int level = 1;  // of Interrupt: 1 to 3
  bool all = false;
  bool failed = false;
  bool kill = false;
  // Of Stop.  {"op":"stop","kill":bool} -> what it waits for: {"pid":N,"kill":bool,"jobs":N,
  // "longest_s":N}, and the coordinator leaves; "kill": also where an earlier one asked for that.
  bool waits = false;         // "wait": a second line {"event":"left","running":N} when it leaves
  bool replaced = false;      // the client has started another one, which waits to take over
  bool queued = false;        // of Cancel: what is live stays
  bool older = false;         // of Ps, Show, Why: live older versions of the jobs, too
  std::int64_t most = 0;      // of Watch: more jobs are refused; 0: none is too many
  bool without_runs = false;  // of Watch: of the sweep no rows and names of runs
  bool without_jobs = false;  // of Watch: none is sent but for what changes
  bool grows = false;         // of Watch: of the sweep's later jobs, too, and without an end
  Settings set = {};          // of Set
  struct Clean {
    std::int64_t older_s = 0;  // ended at least this long ago; 0: whenever
    bool results = false;      // their results are to be removed, too
    bool take = false;         // else only what would go is reported
  };
  Clean clean = {};
  std::string file = {};     // of Backup: where the copy goes, absolute
  std::string release = {};  // of Gpus: those to use again, as for --devices; "": only show
  // Of Usage:
  std::int64_t job = 0;
  std::int64_t attempt = 0;       // 0: the newest
  std::int64_t from_wall_ns = 0;  // 0: all
  std::int64_t step_s = 0;        // 0: as narrow as there is
  // Plan:
  bool has_sweep = false;                           // else what the selectors name; none: all
  std::map<std::string, std::int64_t> expect = {};  // ms, by step
  int on = 0;                                       // as if there were this many GPUs, or lanes
  // Submit, DryRun, and Plan of a sweep:
  SweepSpec sweep = {};  // without its runs, of which
  std::size_t runs = 0;  // as many lines follow
  SubmitContext context = {};
};

/// The name on the wire: "submit", "dry_run", …
std::string_view to_string(Request::Op op);

Error malformed_request(std::string_view why);
Result<Request> request_of(std::string_view line);

}  // namespace pergpu
