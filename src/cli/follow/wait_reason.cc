// A reason is reported once, until something has run: figures in it (memory in use, seconds until
// the next attempt) make no new one.
#include "cli/follow/wait_reason.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "duration.h"
#include "view/text/long_text.h"

namespace pergpu::cli {

using nlohmann::json;

namespace {

/// Longer than a job takes to start, and a GPU to be looked at.
constexpr std::int64_t kReasonPatience = 5 * kSecond;
constexpr std::int64_t kPeriod = 60 * kSecond;

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

}  // namespace

bool WaitReason::is_due(bool is_waiting, std::int64_t boot_ns) {
  if (!is_waiting) {
    due_ns_ = 0;
    reported_.clear();
    return false;
  }
  if (due_ns_ == 0) due_ns_ = boot_ns + kReasonPatience;
  if (boot_ns < due_ns_) return false;
  due_ns_ = boot_ns + kPeriod;
  return true;
}

void WaitReason::ask(std::int64_t job) {
  asker_.ask({{"op", "why"}, {"sel", {std::to_string(job)}}},
             [this](const Result<json>& reply) { on_answer(reply); });
}

void WaitReason::on_answer(const Result<json>& reply) {
  if (!reply || due_ns_ == 0) return;  // it is asked again in a minute
  for (const json& job : reply->value("jobs", json::array())) {
    if (job.value("state", std::string()) != "queued") continue;
    const std::string why = view::short_reason(job.value("why", std::string()));
    std::string reason = without_digits(why);
    if (reason == reported_) return;
    reported_ = std::move(reason);
    return report_(job.value("name", std::string()), why);
  }
}

}  // namespace pergpu::cli
