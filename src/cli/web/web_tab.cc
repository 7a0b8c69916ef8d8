// Each event carries the position behind it in all topics: whichever was the last that arrived, the
// browser goes on from there.
#include "cli/web/web_tab.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/snapshot.h"
#include "cli/client/client.h"
#include "cli/job_files/tail.h"

namespace pergpu::cli {

using nlohmann::json;

namespace {

/// More than that and not yet taken by the kernel: the tab reads slowly.
constexpr std::size_t kMostPending = 256u << 10;
/// Of a log so much is shown; a job that writes faster than the tab reads is shown its end.
constexpr std::int64_t kTabLogKept = 64 << 10;

}  // namespace

WebTab::WebTab(os::Loop& loop, std::shared_ptr<serve::Exchange> exchange, Sources sources,
               std::string server, std::string_view last_id)
    : loop_(loop), exchange_(std::move(exchange)), sources_(std::move(sources)) {
  told_.server = std::move(server);
  told_.sweep_id = sources_.sweep_id;
  told_.job = sources_.job_id;
  const std::optional<serve::Position> before = serve::position_of(last_id);
  if (before && before->server == told_.server) {
    told_.all = before->all;
    all_begun_ = before->all > 0;
    if (before->sweep_id == sources_.sweep_id && before->sweep > 0) {
      told_.sweep = before->sweep;
      sweep_begun_ = true;
    }
    if (before->job == sources_.job_id && before->attempt > 0) {
      told_.attempt = before->attempt;
      told_.offset = before->offset;
      resume_at_ = before->offset;
    }
  }
  exchange_->begin_stream("text/event-stream");
  exchange_->write("retry: 1000\n\n");
  exchange_->on_drained = [this] { pump(); };
}

WebTab::~WebTab() {
  exchange_->on_drained = nullptr;
  exchange_->on_gone = nullptr;
}

void WebTab::send(std::string_view name, std::string_view data) {
  exchange_->write(serve::event_text(serve::id_of(told_), name, data));
}

void WebTab::ping() {
  if (std::exchange(is_replaced_, false)) {  // by no retry
    log_reset_ = true;
    tell_log();
  }
  if (exchange_->pending() == 0) exchange_->write("event: ping\ndata: {}\n\n");
}

void WebTab::pump() {
  if (exchange_->is_gone()) return;
  tell(*sources_.all, told_.all, all_begun_);
  if (sources_.sweep) tell(*sources_.sweep, told_.sweep, sweep_begun_);
  if (sources_.sweep && !sources_.sweep->failure().empty() && !failure_told_) {
    failure_told_ = true;
    send("failed", to_line({{"topic", "sweep"}, {"why", sources_.sweep->failure()}}));
  }
  if (sources_.job) {
    follow_log();
    tell_log();
  }
}

void WebTab::tell(const WebFeed& feed, std::uint64_t& told, bool& begun) {
  const serve::Topic& topic = feed.topic();
  if (!topic.is_known() || exchange_->pending() > kMostPending) return;
  const auto events = begun ? topic.since(told) : std::nullopt;
  if (!events) {
    const serve::Topic::Event snapshot = topic.snapshot();
    told = snapshot.number;
    begun = true;
    send(snapshot.name, snapshot.data);
    if (!topic.trouble().empty()) {
      send("gap", to_line({{"topic", &feed == sources_.all.get() ? "all" : "sweep"},
                           {"why", topic.trouble()}}));
    }
    return;
  }
  for (const serve::Topic::Event* event : *events) {
    told = event->number;
    send(event->name, event->data);
    if (exchange_->pending() > kMostPending) return;  // on_drained goes on
  }
}

/// A retry's log is another file of the same name: it is there when the attempt has started.  Until
/// something of it is sent, the browser's copy is that of the attempt before.
void WebTab::follow_log() {
  const json* known = sources_.job->topic().job(sources_.job_id);
  if (known == nullptr) return;
  const JobSnapshot job = known->get<JobSnapshot>();
  const bool has_log = job.attempt > 0 && job.started_at != 0 && !job.log.empty();
  if (!has_log || log_start_ == job.started_at) return;
  const bool is_resumed = resume_at_ && told_.attempt == job.attempt;
  log_start_ = job.started_at;
  is_replaced_ = false;
  reader_.reset();
  log_.clear();
  const std::int64_t size = file_size(job.log);
  log_at_ = is_resumed && *resume_at_ <= size && size - *resume_at_ <= kTabLogKept
                ? *resume_at_
                : std::max<std::int64_t>(0, size - kTabLogKept);
  log_reset_ = !is_resumed || log_at_ != *resume_at_;
  resume_at_.reset();
  log_attempt_ = job.attempt;
  auto reader = LogReader::create(
      loop_, [this](std::string_view bytes) { on_log(bytes); },
      [this](LogReader::Restart how) {
        tell_log();
        // Another file under the name is usually a retry's, of which more is heard in a moment.
        is_replaced_ = how == LogReader::Restart::Replaced;
        log_reset_ = !is_replaced_;
        log_.clear();
        log_at_ = 0;
      });
  if (!reader) return;
  reader_ = std::move(*reader);
  reader_->follow(job.log, log_at_);
}

void WebTab::on_log(std::string_view bytes) {
  log_ += bytes;
  const auto most = static_cast<std::size_t>(kTabLogKept);
  if (log_.size() > 2 * most) {
    log_at_ += static_cast<std::int64_t>(log_.size() - most);
    log_.erase(0, log_.size() - most);
    log_reset_ = true;
  }
  tell_log();
}

void WebTab::tell_log() {
  if (is_replaced_ || exchange_->is_gone() || exchange_->pending() > kMostPending) return;
  const std::size_t whole = log_.size() - serve::unfinished_utf8(log_);
  if (whole == 0 && !log_reset_) return;
  if (log_start_ < 0) return;
  json data = {{"text", log_.substr(0, whole)}};
  if (log_reset_) data.update({{"job", told_.job}, {"attempt", log_attempt_}});
  log_.erase(0, whole);
  log_at_ += static_cast<std::int64_t>(whole);
  told_.attempt = log_attempt_;
  told_.offset = log_at_;
  send(std::exchange(log_reset_, false) ? "log.reset" : "log.more", to_line(data));
}

}  // namespace pergpu::cli
