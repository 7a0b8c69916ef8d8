// What one tab of a browser gets, as server-sent events: everything, and where it asks for them
// one sweep whole and one job's log.
//
// Nothing is queued for a tab that reads slowly: it gets what came meanwhile when it has read
// what it has, or the state as it is then.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/job_files/log_reader.h"
#include "cli/web/web_feed.h"
#include "os/loop.h"
#include "serve/event_stream.h"
#include "serve/http_server.h"

namespace pergpu::cli {

class WebTab {
 public:
  struct Sources {
    std::shared_ptr<WebFeed> all = nullptr;
    std::shared_ptr<WebFeed> sweep = nullptr;  // null: not asked for
    std::int64_t sweep_id = 0;
    std::shared_ptr<WebFeed> job = nullptr;  // whose log; null: not asked for
    std::int64_t job_id = 0;
  };

  /// `server`: names this server's numbers.  `last_id`: what the browser got before; "": this
  /// is its first connection.
  WebTab(os::Loop& loop, std::shared_ptr<serve::Exchange> exchange, Sources sources,
         std::string server, std::string_view last_id);
  ~WebTab();
  WebTab(const WebTab&) = delete;
  WebTab& operator=(const WebTab&) = delete;

  /// Sends what is new; to be called when a source has changed.
  void pump();
  /// Shows that the connection lives.
  void ping();

 private:
  void send(std::string_view name, std::string_view data);
  void tell(const WebFeed& feed, std::uint64_t& told, bool& begun);
  void follow_log();
  void on_log(std::string_view bytes);
  void tell_log();

  os::Loop& loop_;
  std::shared_ptr<serve::Exchange> exchange_;
  Sources sources_;
  serve::Position told_;
  bool all_begun_ = false;    // told_.all counts
  bool sweep_begun_ = false;  // told_.sweep counts
  bool failure_told_ = false;
  // The log.
  std::optional<std::int64_t> resume_at_ = std::nullopt;  // where the browser's copy ends
  std::int64_t log_start_ = -1;   // start of the attempt that is followed; -1: none yet
  std::int64_t log_attempt_ = 0;  // its number
  std::string log_;               // read and not yet sent
  std::int64_t log_at_ = 0;       // offset of its begin
  bool log_reset_ = false;        // it replaces what was sent
  bool is_replaced_ = false;      // another file took the log's name; whose it is isn't known yet
  std::unique_ptr<LogReader> reader_;
};

}  // namespace pergpu::cli
