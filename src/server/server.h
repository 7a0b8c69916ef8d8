// The coordinator's socket: requests of clients (protocol: snapshot.h), streams for watchers.
//
// Every connection is of this user (peer uid checked).  Requests are answered in order; a request
// that changes something is answered when that is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/request.h"
#include "coordinator/coordinator.h"
#include "os/fs/named_file.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "server/overview.h"
#include "state/selector.h"

namespace pergpu {

class Server {
 public:
  struct Leaving {
    bool kills = false;         // jobs are to end first, by this request or by another
    std::string unmarked = {};  // why the stop mark could not be left; "": it could, or need not be
  };
  struct Options {
    std::string home;
    std::string run_dir;
    std::string version;
    std::size_t most_clients = 256;
    /// Why nothing new may be taken at present; "": it may.
    std::function<std::string()> trouble = [] { return std::string(); };
    /// A client that can give more to jobs may start another one in its place.
    std::function<bool()> may_be_replaced = [] { return false; };
    /// `stop`: the process leaves; `kill`: its jobs are to end first.  `replaced`: another
    /// coordinator follows at once.
    std::function<Leaving(bool kill, bool replaced)> leave;
    /// Copies the store into a new file; the answer is its size.
    std::function<void(std::string file, std::function<void(Result<std::int64_t>)> done)> backup;
    /// What the store keeps of an attempt's usage.
    std::function<void(JobId, std::int32_t attempt,
                       std::function<void(Result<std::vector<row::Usage>>)> done)>
        read_usage;
  };
  static Result<std::unique_ptr<Server>> open(os::Loop& loop, Coordinator& coordinator,
                                              Options options);
  ~Server();

  /// Its socket has its name.
  bool is_reachable() const { return name_.is_there(); }
  /// Makes the socket again in this folder; connections go on.
  Result<void> listen(const std::string& run_dir);

  /// These jobs changed, and that is durable.
  void changed(const std::vector<JobId>& jobs);
  std::size_t clients() const { return clients_.size(); }
  /// The process leaves now: for those that wait for it.
  void tell_left();

 private:
  struct Client;
  using Clients = std::list<std::unique_ptr<Client>>;
  Server(os::Loop& loop, Coordinator& coordinator, Options options);
  void accept();
  void on_line(Client& client, std::string_view line);
  void take(Client& client, std::string_view line);
  void wait_for_answer(Client& client);
  void handle(Client& client, Request request);
  void change(std::uint64_t id, const Request& request);
  std::vector<SweepId> to_fetch(const Request& request) const;
  void submit(Client& client);
  void preview(std::uint64_t id, SweepSpec sweep, SubmitContext context);
  struct Previewed {
    SweepSpec sweep;
    SubmitContext context;
    FoundVerdict found = {};
  };
  void look_for_preview(std::uint64_t id, const std::shared_ptr<Previewed>& wanted);
  void tell_preview(std::uint64_t id, const Previewed& wanted, const LostOutputs& lost);
  void plan(std::uint64_t id, Request request);
  void tell_plan(std::uint64_t id, const Coordinator::PlanRequest& asked);
  void watch(Client& client, const Request& request);
  void begin_watch(Client& client, const Request& request, SweepId sweep, std::vector<JobId> jobs);
  void watch_all(std::uint64_t id);
  void note_change(Client& client, const std::vector<JobId>& jobs);
  void begin_overview(Client& client, const std::string& jobs);
  void tell_changes(Client& client);
  void look_at_devices(Client& client);
  void control(std::uint64_t id, const Request& request);
  void query(Client& client, const Request& request);
  void wait(std::uint64_t id, Selection selection);
  /// Calls it once in each turn of the loop until it says that it is through, or the client leaves.
  void in_turns(std::uint64_t id, std::function<bool(Client&)> part);
  /// Jobs that are being described, in the order of the answer.
  struct Listing {
    std::vector<JobId> jobs = {};
    std::size_t next = 0;   // of `jobs`
    std::string text = {};  // JSON of those before, with commas between
  };
  /// Some more of them.  true: that was all.
  bool describe_jobs(Listing& listing, Request::Op op) const;
  void list(std::uint64_t id, Request::Op op, std::vector<JobId> jobs);
  void clean(std::uint64_t id, const Request& request);
  void move(std::uint64_t id, SweepId sweep, bool is_moved);
  void end_cleaning(std::uint64_t id, SweepId sweep);
  void interrupt(std::uint64_t id, SweepId sweep, int level);
  void stop(std::uint64_t id, const Request& request);
  void tell_gpus(std::uint64_t id, const std::string& release);
  void tell_usage(std::uint64_t id, const Request& request);
  void tell_words(std::uint64_t id, const std::vector<std::string>& begins);
  bool make_room();
  void drop(Client& client);
  void answer(Client& client, const nlohmann::json& line);
  void answer_text(Client& client, std::string_view line);
  void reply(std::uint64_t id, const nlohmann::json& data);
  void fail(std::uint64_t id, int code, const std::string& error);
  Client* find(std::uint64_t id);
  bool is_open(JobId id) const;
  bool is_watched(Client& client, JobId id) const;
  void flush(Client& client);
  void flush_at(Client& client, std::int64_t boot_ns);
  void answer_wait(Client& client);
  void mind_end(std::uint64_t id);
  void tell_end(Client& client);
  void when_discovered(std::function<void()> request);
  nlohmann::json status() const;

  os::Loop& loop_;
  Coordinator& coordinator_;
  Options options_;
  Overview overview_;
  os::UniqueFd listener_;
  os::NamedFile name_;  // of its socket
  Clients clients_;
  Clients dropped_;  // destroyed at the end of the turn
  std::uint64_t next_client_ = 1;
  std::vector<std::function<void()>> frozen_requests_;
  std::vector<std::function<void()>> early_requests_;  // wait for the first look at the GPUs
  std::vector<std::uint64_t> stopping_;                // clients that wait until it has left
};

}  // namespace pergpu
