// A request passes the guard, then goes to the page's files, to the stream of a tab, or to
// web_api.cc.
//
// The coordinator is asked from the loop, and nothing waits for its answers: a history, which
// consists of many and of files beside the jobs, is asked for slice by slice.
#include "cli/web/web_app.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "duration.h"
#include "os/clock.h"
#include "os/random.h"
#include "serve/page.h"
#include "view/model/top_snapshot.h"

namespace pergpu::cli {

using nlohmann::json;
using serve::HttpRequest;
using serve::HttpResponse;

namespace {

constexpr std::int64_t kPing = 15 * kSecond;
/// A reader that comes back in time finds the events that it missed.
constexpr std::int64_t kKeepFeed = 60 * kSecond;
constexpr std::size_t kMostTabs = 64;

constexpr std::string_view kNoPage =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>pergpu</title><h1>This build "
    "has no web page</h1><p>pergpu was built without its web page (PERGPU_PAGE=OFF). The data is "
    "at <code>/api</code> and <code>/metrics</code>.</p></html>\n";

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t at = 1;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

WebApp::WebApp(os::Loop& loop, const Place& place, serve::GuardRules rules, Hooks hooks)
    : loop_(loop),
      client_(place, Client::Start::IfNeeded),
      asking_(place, Client::Start::IfNeeded),
      asker_(loop, asking_),
      rules_(std::move(rules)),
      hooks_(std::move(hooks)),
      server_(os::random_hex(6)),
      tally_(os::RealClock().now().wall_ns),
      all_feed_(std::make_shared<WebFeed>(
          loop, client_, "all", json{{"op", "watch"}, {"all", true}}, [this] { pump(); })) {
  all_feed_->on_event = [this](const json& event) { on_all(event); };
}

void WebApp::start() {
  make_link();
  all_feed_->start();
  tick();
}

void WebApp::make_link() {
  link_token_ = os::random_hex(16);
  hooks_.on_link("http://" + rules_.hosts.front() + "/login?token=" + link_token_);
}

void WebApp::answer(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  if (const std::optional<HttpResponse> refusal = serve::refuse(request, rules_)) {
    return exchange->reply(*refusal);
  }
  if (serve::has_secret(request, rules_)) exchange->let_in();
  if (request.path == serve::kLoginPath && request.method == "POST") return login(exchange);
  if (request.path == "/metrics") return send_metrics(exchange);
  const Words path = parts_of(request.path);
  if (!path.empty() && path.front() == "api") return route_api(exchange, path);
  send_file(exchange);
}

/// The page sends the token of its link: {"token":"…"}.  A link that was used, or guessed at, is
/// worth nothing: a browser that opens it second gets an error.
void WebApp::login(const Exchange& exchange) {
  const json body = json::parse(exchange->request().body, nullptr, false);
  const json token = body.is_object() ? body.value("token", json()) : json();
  if (!token.is_string() || !serve::is_same_secret(token.get<std::string>(), link_token_)) {
    return exchange->reply(
        serve::error_response(403,
                              "This link has been used, or belongs to another server. `pergpu "
                              "serve` prints a new link after each use."));
  }
  exchange->let_in();
  exchange->reply({.type = "application/json",
                   .body = to_line({{"schema", 1}, {"session", rules_.session}}) + "\n"});
  make_link();
}

void WebApp::send_file(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  if (request.method == "POST")
    return exchange->reply(serve::error_response(404, "no such action"));
  // The page reads the token out of its address.
  const std::string path = request.path == "/login" ? "/" : request.path;
  const auto& files = serve::page_files();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const serve::PageFile& one) { return one.path == path; });
  if (file == files.end()) {
    if (path != "/") return exchange->reply(serve::error_response(404, "no such page"));
    return exchange->reply({.type = "text/html; charset=utf-8", .body = std::string(kNoPage)});
  }
  // A browser may keep it and asks each time whether it is still the one.
  HttpResponse response{
      .status = 200,
      .type = std::string(file->type),
      .body = {},
      .fields = {{"Cache-Control", "no-cache"}, {"ETag", std::string(file->etag)}}};
  if (request.field("if-none-match") == file->etag) {
    response.status = 304;
  } else {
    response.fields.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(file->gzip);
  }
  exchange->reply(response);
}

void WebApp::send_metrics(const Exchange& exchange) {
  if (!all_feed_->topic().is_known()) {
    return exchange->reply(serve::error_response(503, "the coordinator has not answered yet"));
  }
  exchange->reply({.type = "text/plain; version=0.0.4; charset=utf-8",
                   .body = view::prometheus_text(all_, tally_)});
}

void WebApp::on_all(const json& event) {
  // The jobs that are seen for the first time may have started and ended before.
  view::take_event(all_, event);
  for (const json& job : event.value("jobs", json::array())) tally_.see(job.get<JobSnapshot>());
  for (const json& id : event.value("gone", json::array())) {
    if (id.is_number_integer()) tally_.forget(id.get<std::int64_t>());
  }
}

// Tabs.

std::shared_ptr<WebFeed> WebApp::feed(const std::string& name, const std::string& key,
                                      const json& request) {
  Kept& kept = feeds_[key];
  kept.unused_since = 0;
  if (!kept.feed || !kept.feed->failure().empty()) {
    kept.feed = std::make_shared<WebFeed>(loop_, client_, name, request, [this] { pump(); });
    kept.feed->start();
  }
  return kept.feed;
}

void WebApp::open_tab(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  WebTab::Sources sources{.all = all_feed_};
  for (const auto& [name, value] : request.query) {
    const std::int64_t number = serve::number_in(value);
    if ((name != "sweep" && name != "log") || number == 0) {
      return exchange->reply(serve::error_response(400, "expected only sweep=NUMBER and log=JOB"));
    }
  }
  if (tabs_.size() >= kMostTabs) {
    return exchange->reply(serve::error_response(503, "too many tabs are open"));
  }
  if (const std::int64_t sweep = serve::number_in(request.parameter("sweep"))) {
    sources.sweep_id = sweep;
    sources.sweep = feed("sweep", "sweep " + std::to_string(sweep),
                         {{"op", "watch"}, {"sweep_id", sweep}, {"most", kMostJobs}});
  }
  if (const std::int64_t job = serve::number_in(request.parameter("log"))) {
    sources.job_id = job;
    sources.job = feed("job", "job " + std::to_string(job),
                       {{"op", "watch"}, {"sel", {std::to_string(job)}}, {"without_runs", true}});
  }
  serve::Exchange* key = exchange.get();
  auto tab = std::make_unique<WebTab>(loop_, exchange, std::move(sources), server_,
                                      request.field("last-event-id"));
  WebTab& opened = *tab;
  tabs_[key] = std::move(tab);
  exchange->on_gone = [this, key] { tabs_.erase(key); };
  opened.pump();
}

void WebApp::pump() {
  if (!all_feed_->failure().empty()) {
    return hooks_.on_failed({ErrorKind::Unavailable, 0, all_feed_->failure()});
  }
  if (std::exchange(pumping_, true)) return;  // a feed that failed at once
  for (const auto& [key, tab] : tabs_) tab->pump();
  pumping_ = false;
}

void WebApp::tick() {
  const std::int64_t now = os::boot_now_ns();
  for (const auto& [key, tab] : tabs_) tab->ping();
  for (auto kept = feeds_.begin(); kept != feeds_.end();) {
    const bool is_used = kept->second.feed.use_count() > 1;
    if (is_used || kept->second.unused_since == 0) kept->second.unused_since = is_used ? 0 : now;
    const bool is_over = !is_used && now - kept->second.unused_since >= kKeepFeed;
    kept = is_over ? feeds_.erase(kept) : std::next(kept);
  }
  loop_.at(now + kPing, [this] { tick(); });
}

void WebApp::route_api(const Exchange& exchange, const Words& path) {
  const bool is_post = exchange->request().method == "POST";
  const auto is = [&](std::size_t size, std::string_view second) {
    return path.size() == size && path[1] == second;
  };
  if (is_post) {
    if (is(3, "actions")) return act(exchange, path[2]);
    return exchange->reply(serve::error_response(404, "no such action"));
  }
  if (is(2, "events") && exchange->request().method == "GET") return open_tab(exchange);
  if (is(2, "hello")) return send_hello(exchange);
  if (is(2, "plan")) {
    const std::string_view sweep = exchange->request().parameter("sweep");
    json selectors = json::array();
    if (!sweep.empty()) selectors.push_back(sweep);
    return forward(exchange, {{"op", "plan"}, {"sel", selectors}, {"expect", json::object()}});
  }
  const std::int64_t number = path.size() >= 3 ? serve::number_in(path[2]) : 0;
  if (number > 0 && is(4, "sweeps") && path[3] == "history") return send_history(exchange, number);
  if (number > 0 && is(3, "jobs")) return route_job(exchange, number, "");
  if (number > 0 && is(4, "jobs")) return route_job(exchange, number, path[3]);
  exchange->reply(serve::error_response(404, "unknown address (see docs/web.md)"));
}

}  // namespace pergpu::cli
