// Jobs described for a client.  A description costs some 30 microseconds and a queue may be long:
// so many in a turn of the loop and no more.  Each is of the instant at which it is made.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/describe.h"
#include "coordinator/server.h"
#include "coordinator/server_client.h"

namespace pergpu {

using nlohmann::json;

namespace {

constexpr std::size_t kJobsOfATurn = 200;

json described(const Coordinator& coordinator, const Job& job, Request::Op op) {
  if (op == Request::Op::Show) return describe_whole(coordinator, job);
  if (op == Request::Op::Why) return describe_why(coordinator, job);
  return describe(coordinator, job);
}

}  // namespace

void Server::list(std::uint64_t id, Request::Op op, std::vector<JobId> jobs) {
  go_on_listing(std::make_shared<Listing>(
      Listing{.client = id, .op = op, .jobs = std::move(jobs), .line = R"({"data":{"jobs":[)"}));
}

void Server::go_on_listing(const std::shared_ptr<Listing>& listing) {
  Client* client = find(listing->client);
  if (client == nullptr) return;
  std::string& line = listing->line;
  const std::size_t end = std::min(listing->jobs.size(), listing->next + kJobsOfATurn);
  for (; listing->next < end; ++listing->next) {
    const Job* job = coordinator_.world().job(listing->jobs[listing->next]);
    if (job == nullptr) continue;  // put away in a turn in between
    if (line.back() != '[') line += ',';
    line += dump(described(coordinator_, *job, listing->op));
  }
  if (listing->next < listing->jobs.size()) {
    loop_.at(coordinator_.now().boot_ns, [this, listing] { go_on_listing(listing); });
    return;
  }
  line += R"(],"schema":1},"ok":true})";
  client->unanswered = false;
  client->stream->send(line);
  wait_for_answer(*client);
}

}  // namespace pergpu
