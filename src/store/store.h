// The store seam: what pergpu remembers.  The journal of events is the truth; restart = load() and
// replay through apply().  append() is called on the deciding thread and never blocks; a store
// thread commits batches in groups (SQLite, WAL, synchronous=FULL) and posts completions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ids.h"
#include "job/event.h"
#include "result.h"
#include "store/boxed.h"

namespace pergpu {

/// 128-bit identity of a job (spec/sweep/identity.h).
using JobIdentity = std::array<std::uint8_t, 16>;

namespace row {
/// Inserts or replaces the sweep's row.
struct Sweep {
  SweepId id = {};
  std::string root = {};  // absolute output root
  std::string name = {};
  std::string spec = {};    // JSON (spec/sweep/wire.h), without runs
  std::string submit = {};  // JSON: cwd, umask, limits, lanes, devices, engine, git …
  Instant at = {};
};
/// A run, once.
struct Run {
  SweepId sweep = {};
  std::int32_t index = 0;
  std::string folder = {};
  std::string json = {};
  std::string texts = {};
};
/// A job comes into being; its first event (Submitted) is implied and has the instant `at`.
struct NewJob {
  JobId id = {};
  SweepId sweep = {};
  std::int32_t run = -1;
  std::int16_t step = 0;
  std::string step_name = {};
  JobIdentity identity = {};
  JobId replaces = {};  // the older job of the same run and step, 0: none
  Instant at = {};
};
struct Event {
  JobId job = {};
  Boxed<JobEvent> event = {};
  Instant at = {};
};
/// [limits]: belongs to the user across sweeps.
struct Limit {
  std::string name = {};
  std::int32_t value = 0;
};
/// All jobs of the sweep have ended.  From now on load() leaves the sweep out, until another row of
/// it is written.
struct Archived {
  SweepId sweep = {};
  std::string key = {};  // of its last submit
  JobId first_job = {};
  JobId last_job = {};
  std::int64_t jobs = 0;  // with older versions
  // Set by load(), from the sweep's row; append() does not look at them:
  std::string root = {};
  std::string name = {};
  Instant at = {};
};
/// The environment that a sweep's jobs inherit.  Not a table: it lies in the file `env/<sweep id>`
/// beside the store (0600, folder 0700; NAME=value entries, each ended by a NUL) and nowhere else.
/// The store thread writes it (temp + rename, synced) before the batch that holds it commits; a
/// failure fails the batch.  Empty: the file is removed.  load() does not visit it.
struct Environment {
  SweepId sweep = {};
  std::vector<std::string> entries = {};
};
/// Some minutes of what an attempt used, in a row.  The newest kMostUsageRows are kept; load() does
/// not visit them.
struct Usage {
  JobId job = {};
  std::int32_t attempt = 0;
  Instant at = {};           // the zero of its times
  std::string minutes = {};  // job/usage_blob.h
};
/// Small facts: "boot_id", …
struct Meta {
  std::string key = {};
  std::string value = {};
};
}  // namespace row

using Row = std::variant<row::Sweep, row::Run, row::NewJob, row::Event, row::Limit, row::Meta,
                         row::Archived, row::Environment, row::Usage>;
using Batch = std::vector<Row>;
/// At a row of ten minutes for each attempt that is 8,000 hours of attempts, and at most some 85
/// MB.
inline constexpr std::int64_t kMostUsageRows = 50'000;
/// Takes a row or says what is wrong with it, and gets no other then.
using RowVisitor = std::function<Result<void>(Row)>;

class Store {
 public:
  virtual ~Store() = default;
  /// One atomic transaction.  `done` runs in drain(), in order of append; an error means that
  /// nothing of the batch is remembered.  The journal has no holes: after a failed batch every
  /// batch that was appended before drain() delivered that failure fails too (same error), so the
  /// caller can append all of them again in order.  What is appended later is tried afresh.
  virtual void append(std::shared_ptr<const Batch> batch,
                      std::function<void(Result<void>)> done) = 0;
  void append(Batch batch, std::function<void(Result<void>)> done) {
    append(std::make_shared<const Batch>(std::move(batch)), std::move(done));
  }
  /// Readable when drain() has completions to deliver.
  virtual int completion_fd() const = 0;
  virtual void drain() = 0;
  /// Everything remembered but archived sweeps, in an order that can be replayed: Meta, Limit and
  /// Archived; each Sweep with its Run, its NewJob and what older events of its jobs were folded
  /// into (event::Folded); then the other Events in journal order.  Nothing was written to the
  /// store before it: what `visit` refuses (ErrorKind::Corrupt) stays as it is, byte for byte.
  /// REQUIRES: before the first append(), fetch() or backup().
  /// `check` is asked when all was visited: what it refuses stays as it is, too.
  virtual Result<void> load(const RowVisitor& visit,
                            const std::function<Result<void>()>& check) = 0;
  Result<void> load(const RowVisitor& visit) {
    return load(visit, [] { return Result<void>(); });
  }
  /// What load() left out of these sweeps, in the same order, read beside the commits.  `visit`
  /// runs on another thread; `done` runs in drain().  `visit` lives until `done` has run if all was
  /// read, and ends before it, on that thread, if not.  REQUIRES: they were archived at load(),
  /// nothing of them was appended since, and each is named once.
  virtual void fetch(std::vector<SweepId> archived, RowVisitor visit,
                     std::function<void(Result<void>)> done) = 0;
  /// A consistent copy in a new file, made beside the commits.  `done` runs in drain(), with the
  /// copy's size in bytes once it is durable, or with an error and no copy.  Environments are no
  /// part of it.
  virtual void backup(std::string file, std::function<void(Result<std::int64_t>)> done) = 0;
  /// What is kept of an attempt's usage, oldest first, with all that was appended before.  `done`
  /// runs in drain(), or before this returns where nothing is kept.
  virtual void read_usage(JobId /*job*/, std::int32_t /*attempt*/,
                          const std::function<void(Result<std::vector<row::Usage>>)>& done) {
    done(std::vector<row::Usage>());
  }
};

/// When the oldest events are folded (store/compaction.h), counted in events.
struct Folding {
  std::int64_t begin = 20'000;      // that many lie unfolded, and nothing was appended for a while
  std::int64_t keep = 10'000;       // the newest stay as they are
  std::int64_t always = 1'000'000;  // from here on beside the commits, too
  std::int64_t slice = 500;
};

/// Opens or creates `path`.  A file that is not a pergpu store of a known version, or is damaged,
/// is refused (ErrorKind::Corrupt) and its bytes are left untouched; the message names the file and
/// the way out.  One of an older version is brought to this one by load().
Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path, Folding folding = {});

}  // namespace pergpu
