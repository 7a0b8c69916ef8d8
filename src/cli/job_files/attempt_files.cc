// Best effort: a folder may be gone, or hold records of an older version of the job (another job
// id), which are left out.
#include "cli/job_files/attempt_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/json_depth.h"
#include "job/redact.h"
#include "number.h"
#include "os/fs/written_file.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// More are left out, the oldest first.
constexpr std::int64_t kMostShown = 100;
constexpr std::size_t kLongestRecord = 4u << 20;

/// The record holds the command line as it was; what is printed may be sent to others.
json shown_argv(const json& record) {
  std::vector<std::string> words;
  const auto argv = record.find("argv");
  if (argv == record.end() || !argv->is_array()) return nullptr;
  for (const json& word : *argv) words.push_back(word.is_string() ? word.get<std::string>() : "?");
  return redact_words(words);
}

json summary_of(const json& record, std::int64_t number) {
  json attempt = {{"attempt", number}};
  for (const char* key :
       {"state", "class", "started_at", "ended_at", "duration_s", "exit", "signal", "node", "lane",
        "gpus", "reason", "left_running", "git", "files"}) {
    if (record.contains(key)) attempt[key] = record[key];
  }
  // Of an attempt that was tried again the class says more than what the job became.
  if (attempt.contains("class") && attempt.value("state", "") == "queued") attempt.erase("state");
  return attempt;
}

}  // namespace

json attempt_record(const JobSnapshot& job, std::int64_t number) {
  const std::string name =
      number == job.attempt ? "attempt.json" : fmt::format("attempt.{}.json", number);
  const Result<std::string> text =
      os::read_written(job.out + "/" + name, os::Writer::Keeper, kLongestRecord);
  if (!text) return nullptr;
  if (nests_deeper_than(*text, kMostNestedJson)) return nullptr;
  json record = json::parse(*text, nullptr, false);
  const auto is = [&](const char* key, std::int64_t value) {
    const auto found = record.find(key);
    return found != record.end() && *found == value;
  };
  if (!record.is_object() || !is("job", job.id) || !is("attempt", number)) return nullptr;
  return record;
}

std::int64_t attempt_of(const std::string& selector) {
  const std::size_t dot = selector.find('.');
  if (dot == std::string::npos || dot == 0) return 0;
  if (selector.find_first_not_of("0123456789.") != std::string::npos) return 0;
  return whole_number<std::int64_t>(std::string_view(selector).substr(dot + 1)).value_or(0);
}

void add_attempts(json& whole, std::int64_t only) {
  const JobSnapshot job = whole.get<JobSnapshot>();
  json attempts = json::array();
  const std::int64_t first =
      only > 0 ? only : std::max<std::int64_t>(1, job.attempt - kMostShown + 1);
  const std::int64_t last = only > 0 ? only : job.attempt;
  for (std::int64_t number = first; number <= last; ++number) {
    const json record = attempt_record(job, number);
    if (number == last && record.is_object()) whole["argv"] = shown_argv(record);
    json attempt = record.is_object() ? summary_of(record, number) : json{{"attempt", number}};
    // The coordinator knows of the newest, whatever its folder holds.
    if (number == job.attempt) {
      attempt["state"] = job.state;
      for (const char* key :
           {"class", "started_at", "duration_s", "exit", "signal", "node", "lane"}) {
        if (whole.contains(key)) attempt[key] = whole[key];
      }
      attempt["reason"] = job.reason;
    }
    attempts.push_back(std::move(attempt));
  }
  whole["attempts"] = std::move(attempts);
}

}  // namespace pergpu::cli
