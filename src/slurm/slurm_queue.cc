// squeue pads its columns and cuts what is longer; wide ones and a separator that stands in no
// value make lines that can be read whatever is in them.
#include "slurm/slurm_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ascii.h"
#include "number.h"

namespace pergpu::slurm {
namespace {

/// Of the list of tasks: most lines are of one, and each is as long.
constexpr std::size_t kTasksWidth = 400;
constexpr char kSeparator = '\x1f';
constexpr std::array<std::string_view, 10> kColumns = {
    "JobID:20",     "ArrayJobID:20", "ArrayTaskID:400", "State:20",      "Reason:200",
    "NodeList:500", "Comment:300",   "exit_code:20",    "restartcnt:10", "UserName:1"};

constexpr std::array<std::string_view, 4> kStepColumns = {"StepID:40", "StepName:300",
                                                          "StepState:20", "Nodes:200"};

template <std::size_t N>
std::string format_of(const std::array<std::string_view, N>& columns) {
  std::string out;
  for (const std::string_view column : columns) {
    out += (out.empty() ? "" : ",") + std::string(column) + kSeparator;
  }
  return out;
}

std::optional<std::int64_t> number(std::string_view text) {
  return whole_number<std::int64_t>(text);
}

Error corrupt(std::string_view line) {
  return Error{ErrorKind::Corrupt, 0, fmt::format("unexpected output of squeue: `{}`", line)};
}

/// The next line that is not empty; nullopt: there is none.
std::optional<std::string_view> next_line(std::string_view& text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!trimmed(line).empty()) return line;
  }
  return std::nullopt;
}

template <std::size_t N>
std::optional<std::array<std::string_view, N>> columns_of(std::string_view line) {
  std::array<std::string_view, N> columns;
  for (std::string_view& column : columns) {
    const std::size_t at = line.find(kSeparator);
    if (at == std::string_view::npos) return std::nullopt;
    column = trimmed(line.substr(0, at));
    line = line.substr(at + 1);
  }
  return columns;
}

/// Without what may be half a number.
std::string_view whole_ranges(std::string_view cut) {
  const std::size_t comma = cut.rfind(',');
  return comma == std::string_view::npos ? std::string_view() : cut.substr(0, comma);
}

}  // namespace

std::string queue_format() { return format_of(kColumns); }
std::string steps_format() { return format_of(kStepColumns); }

Result<std::vector<int>> tasks_of(std::string_view text) {
  constexpr int kMost = 10'000'000;
  std::vector<int> out;
  text = text.substr(0, text.find('%'));
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t dash = range.find('-');
    const std::size_t colon = range.find(':');
    const auto first = number(range.substr(0, std::min(dash, colon)));
    const auto last =
        dash == std::string_view::npos
            ? first
            : number(range.substr(dash + 1,
                                  colon == std::string_view::npos ? colon : colon - dash - 1));
    const auto step = colon == std::string_view::npos ? std::optional<std::int64_t>(1)
                                                      : number(range.substr(colon + 1));
    if (!first || !last || !step || *first < 0 || *last < *first || *last > kMost || *step < 1) {
      return corrupt(range);
    }
    for (std::int64_t at = *first; at <= *last; at += *step) out.push_back(static_cast<int>(at));
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::vector<QueueRecord>> parse_queue(std::string_view text) {
  std::vector<QueueRecord> out;
  while (const std::optional<std::string_view> line = next_line(text)) {
    const auto told = columns_of<kColumns.size()>(*line);
    if (!told) return corrupt(*line);
    const auto& columns = *told;
    const auto job = number(columns[0]);
    const auto array = number(columns[1]);
    if (!job) return corrupt(*line);
    QueueRecord record{.job_id = *job,
                       .array_job_id = array.value_or(*job),
                       .state = std::string(columns[3]),
                       .reason = std::string(columns[4]),
                       .nodes = std::string(columns[5]),
                       .comment = std::string(columns[6])};
    if (columns[2] != "N/A") {
      record.is_cut = columns[2].size() >= kTasksWidth;
      Result<std::vector<int>> tasks =
          tasks_of(record.is_cut ? whole_ranges(columns[2]) : columns[2]);
      if (!tasks) return corrupt(*line);
      record.tasks = *std::move(tasks);
    }
    const int status = static_cast<int>(number(columns[7]).value_or(0));
    record.exit_code = (status >> 8) & 0xff;
    record.signal = status & 0x7f;
    record.restarts = static_cast<int>(number(columns[8]).value_or(0));
    out.push_back(std::move(record));
  }
  return out;
}

Result<std::vector<QueueRecord>> parse_steps(std::string_view text) {
  std::vector<QueueRecord> out;
  while (const std::optional<std::string_view> line = next_line(text)) {
    const auto told = columns_of<kStepColumns.size()>(*line);
    if (!told) return corrupt(*line);
    const auto& [id, name, state, nodes] = *told;
    const auto job = number(id.substr(0, id.find('.')));
    if (!job) return corrupt(*line);
    out.push_back({.job_id = *job,
                   .array_job_id = *job,
                   .tasks = {0},
                   .state = std::string(state),
                   .reason = "None",
                   .nodes = std::string(nodes),
                   .comment = std::string(name)});
  }
  return out;
}

Result<std::vector<QueueRecord>> parse_accounting(std::string_view text) {
  const auto refused = [](std::string_view line) {
    return Error{ErrorKind::Corrupt, 0, fmt::format("unexpected output of sacct: `{}`", line)};
  };
  std::vector<QueueRecord> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (trimmed(line).empty()) continue;
    std::array<std::string_view, 4> columns;
    std::string_view rest = line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::size_t bar = rest.find('|');
      if ((bar == std::string_view::npos) != (i + 1 == columns.size())) return refused(line);
      columns[i] = rest.substr(0, bar);
      rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
    }
    const std::size_t low = columns[0].find('_');  // "12_3", "12_[4-7%2]"
    if (low == std::string_view::npos) continue;
    std::string_view list = columns[0].substr(low + 1);
    if (list.starts_with('[') && list.ends_with(']')) list = list.substr(1, list.size() - 2);
    const auto array = number(columns[0].substr(0, low));
    Result<std::vector<int>> tasks = tasks_of(list);
    const std::size_t colon = std::min(columns[2].find(':'), columns[2].size());
    if (!array || !tasks) return refused(line);
    // "CANCELLED by 1000": a user has.
    const bool was_dropped = columns[1] == "CANCELLED";
    out.push_back(
        {.job_id = *array,
         .array_job_id = *array,
         .tasks = *std::move(tasks),
         .state = std::string(columns[1].substr(0, columns[1].find_first_of(" +"))),
         .reason = was_dropped ? "Dependency" : "",
         .nodes = std::string(columns[3]),
         .exit_code = static_cast<int>(number(columns[2].substr(0, colon)).value_or(0)),
         .signal = static_cast<int>(
             number(columns[2].substr(std::min(colon + 1, columns[2].size()))).value_or(0))});
  }
  return out;
}

bool is_over(std::string_view state) {
  constexpr std::array<std::string_view, 11> kOver = {
      "COMPLETED", "CANCELLED", "FAILED",  "TIMEOUT",       "NODE_FAIL",   "PREEMPTED",
      "BOOT_FAIL", "DEADLINE",  "REVOKED", "OUT_OF_MEMORY", "SPECIAL_EXIT"};
  return std::find(kOver.begin(), kOver.end(), state) != kOver.end();
}

Config parse_config(std::string_view text) {
  Config out;
  const auto value = [&](std::string_view key) -> std::string_view {
    const std::size_t at = text.find("\n" + std::string(key));
    if (at == std::string_view::npos) return {};
    const std::string_view line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    const std::size_t equals = line.find('=');
    return equals == std::string_view::npos ? std::string_view() : trimmed(line.substr(equals + 1));
  };
  if (const auto size = number(value("MaxArraySize")); size && *size > 0) {
    out.max_array_size = static_cast<int>(std::min<std::int64_t>(*size, 4'000'000));
  }
  const std::string_view parameters = value("SchedulerParameters");
  constexpr std::string_view kMostTasks = "max_array_tasks=";
  if (const std::size_t at = parameters.find(kMostTasks); at != std::string_view::npos) {
    const std::string_view rest = parameters.substr(at + kMostTasks.size());
    const auto most = number(rest.substr(0, rest.find(',')));
    if (most && *most > 0)
      out.max_array_tasks = static_cast<int>(std::min<std::int64_t>(*most, 4'000'000));
  }
  const std::string_view storage = value("AccountingStorageType");
  out.has_accounting =
      !storage.empty() && storage != "(null)" && storage != "accounting_storage/none";
  return out;
}

}  // namespace pergpu::slurm
