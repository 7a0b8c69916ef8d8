// News of sweeps on its way to the channels of their [notify]: what is pending for which channel,
// in the store with its events, and sent when that is durable.
//
//   saw()     an event was recorded: what of it is news
//   settle()  once per turn: the turn's news becomes a row of the same transaction (row::Meta
//             "notify.<sweep id>", notify/notice_debt.h); durable -> send what is due
//   deliver   a helper process sends (notify/messenger.h): the deciding thread does not wait
//   arrived   the row goes; else the debt stays and is tried again
//
// So every piece of news is sent at least once, over crashes and restarts; twice only when the
// coordinator was killed between a message's arrival and its record.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "notify/notice_debt.h"
#include "os/clock.h"
#include "spec/sweep/notify.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

/// What a helper is asked to send; cli/notify/notify.cc reads it.
struct NoticeRequest {
  std::string text = {};      // JSON
  std::int64_t limit_ns = 0;  // then the helper is killed
};
/// `done` runs later, exactly once, never inside the call; an error says why it did not arrive.
using DeliverNotice =
    std::function<void(NoticeRequest request, std::function<void(Result<void>)> done)>;

class Notices {
 public:
  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    std::function<void(row::Meta)> record = {};
    std::function<void(std::function<void()>)> then = {};  // when all that was recorded is durable
    std::function<void(std::vector<SweepId>, std::function<void(Result<void>)>)> fetch = {};
    std::function<NoticeRequest(const Sweep&, const NotifyChannel&, const NoticeDebt&)> compose =
        {};
    DeliverNotice deliver = {};                 // empty: nothing is sent
    std::function<void(SweepId)> settled = {};  // after an event, or a message: nothing is pending
  };
  explicit Notices(Parts parts);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Takes up what was pending for the coordinator before.
  void recover();
  /// After the event was recorded; `was_active`: before it the job was queued or live.
  void saw(const Job& job, bool was_active);
  /// A disk keeps the sweep's jobs from starting; `words` say why.
  void saw_outage(SweepId id, std::string words);
  /// REQUIRES: before the turn is flushed, and before its sweeps are archived.
  void settle();

  /// Nothing is pending.
  bool idle() const;
  /// A channel of the sweep has not yet got all that is pending for it.
  bool owes(SweepId id) const;
  /// Of each channel how it stands, as text.
  std::vector<std::string> words_of(const Sweep& sweep) const;

 private:
  struct Touch {
    std::vector<JobId> failed = {};
    std::string hold = {};
    std::string outage = {};
    bool may_have_ended = false;
  };
  void book(const Sweep& sweep, const Touch& touch);
  void write_down(SweepId id);
  void send_due();
  void send(const Sweep& sweep, const NotifyChannel& channel, ChannelState& state);
  void on_delivered(SweepId id, const std::string& key, const Result<void>& sent);
  void wake_at(std::int64_t boot_ns);
  void forget_dropped_channels();

  Parts parts_;
  std::map<SweepId, ChannelStates> states_;
  std::map<SweepId, Touch> touched_;  // in this turn
  std::set<SweepId> changed_;         // whose row is to be written
  int sending_ = 0;
  Timers::Id timer_ = 0;
};

}  // namespace pergpu
