// A record that another attempt has followed lies there under its number.
#include "coordinator/attempt_end.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "api/snapshot.h"
#include "os/fs/written_file.h"
#include "store/result_file.h"

namespace pergpu {

void tell_end(const Job& job, AttemptRecord& record) {
  const Attempt& attempt = *job.last;
  if (attempt.started_at.wall_ns != 0) {
    record.started_at = rfc3339(attempt.started_at.wall_ns);
    record.duration_s =
        static_cast<double>(attempt.ended_at.boot_ns - attempt.started_at.boot_ns) / 1e9;
  }
  record.ended_at = rfc3339(attempt.ended_at.wall_ns);
  record.state = to_string(job.state);
  record.outcome = attempt.outcome;
}

void close_record(const std::string& folder, const AttemptRecord& end, mode_t mode) {
  constexpr std::size_t kLongest = 4u << 20;
  const std::string moved = fmt::format("attempt.{}.json", end.id.number);
  for (const std::string& name : {std::string("attempt.json"), moved}) {
    const Result<std::string> text =
        os::read_written(folder + "/" + name, os::Writer::Keeper, kLongest);
    std::optional<AttemptRecord> record = text ? attempt_record_of(*text) : std::nullopt;
    if (!record || record->id.number != end.id.number) continue;
    const nlohmann::json told = nlohmann::json::parse(*text, nullptr, false);
    if (!told.is_object() || told.value("state", std::string()) != "running") return;
    record->placement = end.placement;
    record->started_at = end.started_at;
    record->duration_s = end.duration_s;
    record->ended_at = end.ended_at;
    record->state = end.state;
    record->outcome = end.outcome;
    (void)store::write_result_file(folder, name, to_json_text(*record), mode, false);
    return;
  }
}

}  // namespace pergpu
