// Jobs described for a client.  A description costs some 30 microseconds and a sweep may be long:
// a limited number in a turn of the loop.  Each is of the instant at which it is made.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/describe.h"
#include "server/server.h"
#include "server/server_client.h"

namespace pergpu {

using nlohmann::json;

namespace {

json described(const Coordinator& coordinator, const Job& job, Request::Op op) {
  if (op == Request::Op::Show) return describe_whole(coordinator, job);
  if (op == Request::Op::Why) return describe_why(coordinator, job);
  return describe(coordinator, job);
}

}  // namespace

void Server::in_turns(std::uint64_t id, std::function<bool(Client&)> part) {
  Client* client = find(id);
  if (client == nullptr || part(*client)) return;
  loop_.at(coordinator_.now().boot_ns, [this, id, part = std::move(part)] { in_turns(id, part); });
}

bool Server::describe_jobs(Listing& listing, Request::Op op) const {
  const std::size_t end = std::min(listing.jobs.size(), listing.next + kDescribedInATurn);
  for (; listing.next < end; ++listing.next) {
    const Job* job = coordinator_.world().job(listing.jobs[listing.next]);
    if (job == nullptr) continue;  // put away in a turn in between
    if (!listing.text.empty()) listing.text += ',';
    listing.text += dump(described(coordinator_, *job, op));
  }
  return listing.next == listing.jobs.size();
}

void Server::list(std::uint64_t id, Request::Op op, std::vector<JobId> jobs) {
  const auto listing = std::make_shared<Listing>(Listing{.jobs = std::move(jobs)});
  in_turns(id, [this, op, listing](Client& client) {
    if (!describe_jobs(*listing, op)) return false;
    answer_text(client, R"({"data":{"jobs":[)" + listing->text + R"(],"schema":1},"ok":true})");
    return true;
  });
}

}  // namespace pergpu
