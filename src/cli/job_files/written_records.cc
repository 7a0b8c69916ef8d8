// A record has its attempt's number, and "running" as its state until the attempt has ended.
#include "cli/job_files/written_records.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/written_file.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kRecordsPatience = 2'000'000'000;
constexpr std::int64_t kFresh = 10'000'000'000;  // what ended earlier is written, or never will be
constexpr std::chrono::milliseconds kPause{2};
/// Of the jobs that ended last: keepers write in the order of their requests.
constexpr std::size_t kMost = 64;
constexpr std::size_t kMostBytes = 4u << 20;

bool may_be_unwritten(const JobSnapshot& job, std::int64_t now_wall_ns) {
  const bool is_fresh = now_wall_ns - job.ended_at < kFresh;
  return is_fresh && job.started_at > 0 && job.ended_at > 0 && !job.replaced && !job.out.empty();
}

bool is_written(const JobSnapshot& job) {
  const Result<std::string> text =
      os::read_written(job.out + "/attempt.json", os::Writer::Keeper, kMostBytes);
  // Where there is no folder nothing will be written.
  if (!text) return !os::exists(job.out);
  const json record = json::parse(*text, nullptr, false);
  if (!record.is_object()) return false;
  if (record.value("job", json()) != job.id) return true;  // another job's
  const json number = record.value("attempt", json());
  if (!number.is_number_integer() || number < job.attempt) return false;
  return record.value("state", json()) != "running";
}

}  // namespace

void await_records(std::vector<JobSnapshot> jobs) {
  const std::int64_t now = os::RealClock().now().wall_ns;
  std::erase_if(jobs, [&](const JobSnapshot& job) { return !may_be_unwritten(job, now); });
  const std::size_t most = std::min(kMost, jobs.size());
  const auto last = jobs.begin() + static_cast<std::ptrdiff_t>(most);
  std::partial_sort(jobs.begin(), last, jobs.end(), [](const JobSnapshot& a, const JobSnapshot& b) {
    return a.ended_at > b.ended_at;
  });
  jobs.erase(last, jobs.end());
  const std::int64_t deadline = os::awake_now_ns() + kRecordsPatience;
  while (true) {
    std::erase_if(jobs, is_written);
    if (jobs.empty() || os::awake_now_ns() >= deadline) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace pergpu::cli
