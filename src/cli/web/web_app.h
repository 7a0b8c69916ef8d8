// The web server's answers: the page, the streams of its tabs, what is asked of the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/client/asker.h"
#include "cli/client/client.h"
#include "cli/web/web_feed.h"
#include "cli/web/web_tab.h"
#include "os/loop.h"
#include "result.h"
#include "serve/guard.h"
#include "serve/http_server.h"
#include "view/export/prometheus.h"
#include "view/model/top_snapshot.h"

namespace pergpu::cli {

class WebApp {
 public:
  struct Hooks {
    std::function<void(const std::string& link)> on_link;  // a new one-time link; the last is used
    std::function<void(const Error& why)> on_failed;       // no coordinator can be had any more
  };

  /// The loop outlives it.  `rules.hosts` begins with the one that links name.
  WebApp(os::Loop& loop, const Place& place, serve::GuardRules rules, Hooks hooks);

  /// Begins to watch; passes on the first link.
  void start();
  void answer(const std::shared_ptr<serve::Exchange>& exchange);

 private:
  /// As `report`: a page cannot hold more jobs of a sweep.
  static constexpr std::size_t kMostJobs = 20'000;

  using Exchange = std::shared_ptr<serve::Exchange>;
  using Words = std::vector<std::string>;

  void make_link();
  void login(const Exchange& exchange);
  void send_file(const Exchange& exchange);
  void send_hello(const Exchange& exchange);
  void send_metrics(const Exchange& exchange);
  void route_api(const Exchange& exchange, const Words& path);
  void route_job(const Exchange& exchange, std::int64_t job, const std::string& what);
  void send_history(const Exchange& exchange, std::int64_t sweep);
  struct Histories;
  void read_histories(const Exchange& exchange, const std::shared_ptr<Histories>& histories);
  void send_points(const Exchange& exchange, std::int64_t job);
  void send_usage(const Exchange& exchange, std::int64_t job);
  void act(const Exchange& exchange, const std::string& op);
  /// Asks the coordinator; `make` turns its reply into what is sent.
  void forward(const Exchange& exchange, const nlohmann::json& request,
               std::function<nlohmann::json(nlohmann::json reply)> make = nullptr);

  void open_tab(const Exchange& exchange);
  std::shared_ptr<WebFeed> feed(const std::string& name, const std::string& key,
                                const nlohmann::json& request);
  void pump();
  void tick();
  void on_all(const nlohmann::json& event);

  os::Loop& loop_;
  Client client_;  // of the feeds
  Client asking_;  // of what is asked in between
  Asker asker_;    // of asking_
  serve::GuardRules rules_;
  Hooks hooks_;
  std::string server_;  // names this server's events
  std::string link_token_;
  view::TopSnapshot all_ = {};  // for /metrics
  view::AttemptTally tally_;
  std::shared_ptr<WebFeed> all_feed_;
  struct Kept {
    std::shared_ptr<WebFeed> feed;
    std::int64_t unused_since = 0;  // boot clock; 0: it is used
  };
  std::map<std::string, Kept> feeds_;  // of sweeps and jobs; a while longer than they are read
  std::map<serve::Exchange*, std::unique_ptr<WebTab>> tabs_;
  bool pumping_ = false;
};

}  // namespace pergpu::cli
