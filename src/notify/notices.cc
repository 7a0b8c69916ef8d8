// A sweep without [notify] costs one look at an empty list for each event.
#include "notify/notices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "number.h"
#include "plural.h"

namespace pergpu {
namespace {

constexpr std::string_view kNotifyKey = "notify.";
constexpr int kMostSending = 4;  // helpers

bool is_active(const Job& job) { return !is_ended(job.state) && !is_held_for_good(job); }

bool is_failure(JobState state) {
  return state == JobState::Failed || state == JobState::Timeout || state == JobState::Lost;
}

std::optional<SweepId> sweep_of_key(std::string_view key) {
  key.remove_prefix(kNotifyKey.size());
  const std::optional<std::int64_t> number = whole_number<std::int64_t>(key);
  if (!number || *number < 1) return std::nullopt;
  return SweepId{*number};
}

void complain(const std::string& what) { fmt::print(stderr, "pergpu coordinator: {}\n", what); }

}  // namespace

Notices::Notices(Parts parts) : parts_(std::move(parts)) {}

Notices::~Notices() {
  if (timer_ != 0) parts_.timers->cancel(timer_);
}

void Notices::recover() {
  if (!parts_.deliver) return;
  std::vector<SweepId> archived;
  const auto& meta = parts_.world->meta();
  for (auto it = meta.lower_bound(std::string(kNotifyKey)); it != meta.end(); ++it) {
    if (!it->first.starts_with(kNotifyKey)) break;
    if (it->second.empty()) continue;
    const std::optional<SweepId> id = sweep_of_key(it->first);
    Result<ChannelStates> states = channel_states_of(it->second);
    if (!id || !states) {
      complain(fmt::format("ignored an invalid entry in the store: {}", it->first));
      continue;
    }
    const bool is_archived = parts_.world->archived().contains(*id);
    if (!is_archived && parts_.world->sweep(*id) == nullptr) continue;
    states_[*id] = *std::move(states);
    if (is_archived && owes(*id)) archived.push_back(*id);
  }
  if (states_.empty()) return;
  if (archived.empty()) return wake_at(parts_.clock->now().boot_ns);
  std::vector<SweepId> sweeps = archived;
  parts_.fetch(
      std::move(sweeps), [this, archived = std::move(archived)](const Result<void>& fetched) {
        if (!fetched) {
          complain("can't send notifications of earlier sweeps: " + fetched.error().message);
          for (const SweepId id : archived) states_.erase(id);
        }
        wake_at(parts_.clock->now().boot_ns);
      });
}

void Notices::saw(const Job& job, bool was_active) {
  if (!parts_.deliver || parts_.world->sweep_of(job).spec.notify.empty()) return;
  Touch& touch = touched_[job.sweep];
  if (was_active && !is_active(job)) touch.may_have_ended = true;
  if (was_active && is_failure(job.state)) touch.failed.push_back(job.id);
  if (is_held_by_breaker(job)) touch.hold = job.reason;
}

void Notices::saw_outage(SweepId id, std::string words) {
  const Sweep* sweep = parts_.world->sweep(id);
  if (!parts_.deliver || sweep == nullptr || sweep->spec.notify.empty()) return;
  touched_[id].outage = std::move(words);
}

void Notices::settle() {
  if (touched_.empty() && changed_.empty()) return;
  const std::map<SweepId, Touch> touched = std::exchange(touched_, {});
  for (const auto& [id, touch] : touched) book(*parts_.world->sweep(id), touch);
  const std::set<SweepId> changed = std::exchange(changed_, {});
  for (const SweepId id : changed) write_down(id);
  for (const auto& [id, touch] : touched) {
    if (!owes(id)) parts_.settled(id);
  }
  for (const SweepId id : changed) {
    if (!touched.contains(id) && !owes(id)) parts_.settled(id);
  }
  if (!changed.empty()) parts_.then([this] { send_due(); });
}

/// What the turn brought, to each channel that wants to know.
void Notices::book(const Sweep& sweep, const Touch& touch) {
  const bool has_ended = touch.may_have_ended && sweep.open == sweep.held;
  if (touch.failed.empty() && touch.hold.empty() && touch.outage.empty() && !has_ended) return;
  const Instant now = parts_.clock->now();
  for (const NotifyChannel& channel : channels_of(sweep.spec.notify)) {
    NoticeDebt news;
    if (channel.on_failure) {
      for (const JobId job : touch.failed) add_failure(news, job);
    }
    if (channel.on_hold) news.hold = touch.hold;
    if (channel.on_hold) news.outage = touch.outage;
    if (channel.on_end && has_ended) news.ended_wall_ns = now.wall_ns;
    if (news.empty()) continue;
    ChannelState& state = states_[sweep.id][key_of(channel)];
    if (state.owed.empty()) state.since_ns = now.boot_ns;
    state.owed = joined(std::move(state.owed), news);
    changed_.insert(sweep.id);
  }
}

void Notices::write_down(SweepId id) {
  const auto found = states_.find(id);
  std::string text = found == states_.end() ? std::string() : to_text(found->second);
  if (text.empty() && found != states_.end() && !owes(id)) {
    // When the last message went is forgotten with it, unless the sweep goes on.
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr || sweep->open == sweep->held) states_.erase(found);
  }
  std::string key = std::string(kNotifyKey) + std::to_string(id.value);
  const auto known = parts_.world->meta().find(key);
  const bool is_same = known == parts_.world->meta().end() ? text.empty() : known->second == text;
  if (!is_same) parts_.record({.key = std::move(key), .value = std::move(text)});
}

void Notices::send_due() {
  forget_dropped_channels();
  const std::int64_t now = parts_.clock->now().boot_ns;
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  for (auto& [id, states] : states_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;  // being fetched
    for (const NotifyChannel& channel : channels_of(sweep->spec.notify)) {
      const auto found = states.find(key_of(channel));
      if (found == states.end()) continue;
      ChannelState& state = found->second;
      if (state.owed.empty() || state.is_sending()) continue;
      const std::int64_t due = due_ns(state);
      if (due > now) {
        next = std::min(next, due);
      } else if (sending_ < kMostSending) {  // else when one of them is back
        send(*sweep, channel, state);
      }
    }
  }
  if (!changed_.empty()) next = now;  // a turn has to write it down
  if (next != std::numeric_limits<std::int64_t>::max()) wake_at(next);
}

void Notices::send(const Sweep& sweep, const NotifyChannel& channel, ChannelState& state) {
  ++sending_;
  state.sending = std::exchange(state.owed, {});
  parts_.deliver(parts_.compose(sweep, channel, state.sending),
                 [this, id = sweep.id, key = key_of(channel)](const Result<void>& sent) {
                   on_delivered(id, key, sent);
                 });
}

void Notices::on_delivered(SweepId id, const std::string& key, const Result<void>& sent) {
  --sending_;
  ChannelState& state = states_[id][key];
  const std::int64_t now = parts_.clock->now().boot_ns;
  if (sent) {
    settle_debt(state, now);
  } else if (const std::string lost = to_words(joined(state.sending, state.owed));
             put_off(state, sent.error().message, now)) {
    const Sweep* sweep = parts_.world->sweep(id);
    std::string channel = key;
    if (sweep != nullptr) {
      for (const NotifyChannel& known : channels_of(sweep->spec.notify)) {
        if (key_of(known) == key) channel = shown(known);
      }
    }
    complain(fmt::format("sweep {}: couldn't notify {} about {}: {}",
                         sweep == nullptr ? std::to_string(id.value) : sweep->name, channel, lost,
                         state.trouble));
  }
  changed_.insert(id);  // the turn writes it down, then what is due goes
}

void Notices::wake_at(std::int64_t boot_ns) {
  if (timer_ != 0) parts_.timers->cancel(timer_);
  timer_ = parts_.timers->at(boot_ns, [this] {
    timer_ = 0;
    send_due();
  });
}

/// Channels that the file named when something was pending for them, and does not name any more.
void Notices::forget_dropped_channels() {
  for (auto& [id, states] : states_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;
    const std::vector<NotifyChannel> channels = channels_of(sweep->spec.notify);
    const std::size_t dropped = std::erase_if(states, [&](const auto& entry) {
      return !entry.second.is_sending() &&
             std::none_of(channels.begin(), channels.end(), [&](const NotifyChannel& channel) {
               return key_of(channel) == entry.first;
             });
    });
    if (dropped > 0) changed_.insert(id);
  }
}

bool Notices::owes(SweepId id) const {
  const auto found = states_.find(id);
  return found != states_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [](const auto& entry) { return entry.second.owes(); });
}

bool Notices::idle() const {
  return touched_.empty() && changed_.empty() &&
         std::none_of(states_.begin(), states_.end(),
                      [this](const auto& entry) { return owes(entry.first); });
}

std::vector<std::string> Notices::words_of(const Sweep& sweep) const {
  std::vector<std::string> out;
  const auto states = states_.find(sweep.id);
  for (const NotifyChannel& channel : channels_of(sweep.spec.notify)) {
    std::string words = shown(channel) + ": ";
    const ChannelState* state = nullptr;
    if (states != states_.end()) {
      const auto found = states->second.find(key_of(channel));
      if (found != states->second.end()) state = &found->second;
    }
    if (state == nullptr || (!state->owes() && state->trouble.empty())) {
      out.push_back(words + "all notifications sent");
      continue;
    }
    if (state->owes()) {
      words += "pending: " + to_words(joined(state->sending, state->owed));
      if (state->tries > 0) words += "; " + counted(state->tries, "failed try", "failed tries");
      if (!state->trouble.empty()) words += "; ";
    }
    out.push_back(words + state->trouble);
  }
  return out;
}

}  // namespace pergpu
