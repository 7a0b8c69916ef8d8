// What a task on a node has to report: files in the handover's folder, each written once and
// renamed into its place, so that a reader that finds one finds all of it.
//
// A life is one start of the task: the cluster may start it again.  `<task>.<life>.<part>.jsonl`
// are written while it runs; when it has reported all, `<task>.<life>.jsonl` takes their place.
// Each line is an event of a job, or some minutes of what an attempt used; the last one of a whole
// life says whether the task is closed: all that it will ever do was reported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "job/event.h"
#include "result.h"
#include "store/store.h"

namespace pergpu::store {

struct Record {
  AttemptId attempt = {};  // the event's, or the newest one before it; 0: none was started
  JobEvent event = {};
  Instant at = {};
  bool operator==(const Record&) const = default;
};

struct RecordName {
  std::int32_t task = 0;
  std::int32_t life = 1;
  std::int32_t part = 0;  // from 1; 0: the whole life
  auto operator<=>(const RecordName&) const = default;
};
std::string to_string(const RecordName& name);
/// nullopt: it is no file of records.
std::optional<RecordName> record_name_of(std::string_view name);

struct RecordFile {
  std::vector<Record> records = {};
  std::vector<row::Usage> usage = {};
  bool closed = false;
};
std::string to_text(const RecordFile& file);
/// ErrorKind::Corrupt with the line's number.
Result<RecordFile> records_of(std::string_view text);

/// A whole life, or as many of its parts as are there without a gap.
struct Life {
  std::int32_t task = 0;
  std::int32_t number = 1;
  std::int32_t parts = 0;  // how many were read
  bool whole = false;
  RecordFile file = {};
};
/// Reads what is there of `name.task` and `name.life` behind the first `name.part` parts.
/// NotFound: nothing more.
Result<Life> read_life(const std::string& folder, const RecordName& after);

/// The lives whose files are among `names`, ascending: (task, life), part 0.
std::vector<RecordName> lives_in(const std::vector<std::string>& names);

}  // namespace pergpu::store
