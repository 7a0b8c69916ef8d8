// A visitor asks for one name at a time and is in one of three states: it may ask, it waits for the
// maker of what it asked for, or it makes that itself.  Nothing else is remembered of it.  That a
// maker is gone is seen by its connection or by its process, whichever ends first: a child may have
// inherited the connection.
#include "broker/meeting_place.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "json_text.h"
#include "os/ipc/accept.h"
#include "os/process/child.h"

namespace pergpu {

using nlohmann::json;

namespace {

/// A frame beyond it is not even read: its connection is closed without a word.
constexpr std::size_t kMostFrameBytes = 1u << 20;

std::string table_in(const std::string& run_dir) { return run_dir + "/share.json"; }

std::string text_of(const json& object) { return json_text(object); }

}  // namespace

struct MeetingPlace::Visitor {
  enum class State : std::uint8_t { MayAsk, Waits, Makes };
  std::uint64_t id = 0;
  pid_t pid = 0;
  std::unique_ptr<os::FrameStream> stream = {};
  bool gone = false;
  State state = State::MayAsk;
  MeetingRequest wants = {};                         // what it asked for last
  HeldFor who = {};                                  // for whom that is
  std::optional<os::MemoryId> given = std::nullopt;  // what it got for it
};

MeetingPlace::MeetingPlace(os::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      holdings_(table_in(options_.run_dir), options_.most_held) {}

MeetingPlace::~MeetingPlace() {
  if (listener_) loop_.unwatch(listener_.get());
  for (const auto& [pid, fd] : processes_) loop_.unwatch(fd.get());
}

Result<std::unique_ptr<MeetingPlace>> MeetingPlace::open(os::Loop& loop, Options options) {
  std::unique_ptr<MeetingPlace> place(new MeetingPlace(loop, std::move(options)));
  place->holdings_.recover(place->options_.can_run);
  Result<void> listens = place->listen(place->options_.run_dir);
  if (!listens) return std::move(listens).error();
  loop.on_turn([raw = place.get()] { raw->dropped_.clear(); });
  return place;
}

Result<void> MeetingPlace::listen(const std::string& run_dir) {
  if (is_reachable() && run_dir == options_.run_dir) return {};
  const std::string path = meeting_socket(run_dir);
  Result<os::UniqueFd> listener = os::listen_unix(path);
  if (!listener) return std::move(listener).error();
  Result<void> watched = loop_.watch(listener->get(), EPOLLIN, [this](std::uint32_t) { accept(); });
  if (!watched) return watched;
  if (listener_) {
    loop_.unwatch(listener_.get());
    holdings_.move_table(table_in(run_dir));
  }
  listener_ = *std::move(listener);
  name_ = os::NamedFile(path);
  options_.run_dir = run_dir;
  return {};
}

void MeetingPlace::accept() {
  for (int i = 0; i < os::kMostAcceptedAtOnce;
       ++i) {  // the others are still there in the next turn
    Result<os::UniqueFd> fd = os::accept_from(listener_.get());
    if (!fd) return;
    const Result<os::PeerCredentials> peer = os::peer_of(fd->get());
    if (!peer || peer->uid != ::getuid()) continue;  // closed: not of this user
    const bool has_room = visitors_.size() < options_.most_visitors || make_room();
    auto visitor = std::make_unique<Visitor>();
    Visitor* raw = visitor.get();
    raw->id = next_visitor_++;
    raw->pid = peer->pid;
    Result<std::unique_ptr<os::FrameStream>> stream = os::FrameStream::open(
        loop_, std::move(*fd),
        {.on_frame = [this, raw](os::FrameStream::Frame f) { on_frame(*raw, std::move(f)); },
         .on_close = [this, raw](const Error&) { drop(*raw); }},
        kMostFrameBytes);
    if (!stream) continue;
    raw->stream = *std::move(stream);
    visitors_.push_back(std::move(visitor));
    if (!has_room) {
      turn_away(
          *raw,
          fmt::format(
              "{} processes are connected, the maximum; raise the limit of open files (ulimit -n)",
              options_.most_visitors));
    }
  }
}

/// Connections that a client forgot to close must not keep others out.
bool MeetingPlace::make_room() {
  const auto idle = std::ranges::find_if(
      visitors_, [](const auto& one) { return one->state == Visitor::State::MayAsk; });
  if (idle == visitors_.end()) return false;
  drop(**idle);
  return true;
}

void MeetingPlace::drop(Visitor& visitor) {
  if (visitor.gone) return;
  visitor.gone = true;
  const auto it =
      std::ranges::find_if(visitors_, [&](const auto& one) { return one.get() == &visitor; });
  dropped_.splice(dropped_.end(), visitors_, it);
  const std::string& name = visitor.wants.name;
  if (visitor.state == Visitor::State::Waits) {
    std::vector<std::uint64_t>& ids = waiting_[name];
    std::erase(ids, visitor.id);
    if (ids.empty()) waiting_.erase(name);
  }
  if (visitor.state != Visitor::State::Makes) return;
  makers_.erase(name);
  wake(name);
}

MeetingPlace::Visitor* MeetingPlace::find(std::uint64_t id) {
  const auto it = std::ranges::find_if(visitors_, [&](const auto& one) { return one->id == id; });
  return it == visitors_.end() ? nullptr : it->get();
}

void MeetingPlace::answer(Visitor& visitor, const json& object, const std::vector<int>& fds) {
  visitor.stream->send(kMeetingAnswers, text_of(object), fds);
}

/// It made a mistake: it gets the reason, and its connection is closed.
void MeetingPlace::refuse(Visitor& visitor, const std::string& why) {
  answer(visitor, {{"is", "wrong"}, {"why", why}});
  drop(visitor);
}

/// It made no mistake.
void MeetingPlace::turn_away(Visitor& visitor, const std::string& why) {
  answer(visitor, {{"is", "no"}, {"why", why}});
  drop(visitor);
}

void MeetingPlace::on_frame(Visitor& visitor, os::FrameStream::Frame frame) {
  if (visitor.gone) return;
  if (visitor.stream->pending() > 0) return drop(visitor);  // it does not read the answers
  if (frame.type != kMeetingAsks) return refuse(visitor, "expected a frame of type `q`");
  Result<MeetingRequest> request = meeting_request_of(frame.payload);
  if (!request) return refuse(visitor, request.error().message);
  using Op = MeetingRequest::Op;
  const std::size_t expected = request->op == Op::Put ? 1 : 0;
  if (frame.fds.size() != expected) {
    return refuse(visitor, fmt::format("expected {} descriptors with this request, got {}",
                                       expected, frame.fds.size()));
  }
  if (visitor.state == Visitor::State::Waits) {
    return refuse(visitor, "the previous request isn't answered yet; send one request at a time");
  }
  if ((visitor.state == Visitor::State::Makes) != (request->op == Op::Put)) {
    return refuse(visitor, "expected `put` after the answer `yours`, and only then");
  }
  switch (request->op) {
    case Op::Get:
      return get(visitor, *std::move(request));
    case Op::Put:
      return put(visitor, std::move(frame.fds.front()));
    case Op::List:
      return answer(visitor, list());
    case Op::Drop:
      return answer(visitor, {{"is", "dropped"}, {"names", holdings_.drop(request->what)}});
  }
}

json MeetingPlace::list() const {
  json segments = holdings_.list();
  for (json& segment : segments) {
    for (json& sweep : segment["sweeps"]) {
      const SweepId id{sweep.get<std::int64_t>()};
      sweep = {{"id", id.value}, {"sweep", options_.name_of(id)}};
    }
  }
  return {{"is", "list"}, {"pid", ::getpid()}, {"segments", std::move(segments)}};
}

void MeetingPlace::get(Visitor& visitor, MeetingRequest request) {
  const bool is_again = request.other && request.name == visitor.wants.name;
  if (!is_again) visitor.given = std::nullopt;
  visitor.wants = std::move(request);
  visitor.who = {.keep = visitor.wants.keep};
  if (visitor.wants.scope == MeetingRequest::Scope::Sweep) {
    const std::optional<SweepId> sweep = options_.sweep_of(visitor.wants.job);
    if (!sweep || !options_.can_run(*sweep)) {
      return turn_away(visitor, fmt::format("job {} doesn't belong to a sweep that can still run",
                                            visitor.wants.job.value));
    }
    visitor.who.sweeps.insert(*sweep);
  }
  if (follow(visitor.pid)) {
    if (visitor.who.is_nobody()) visitor.who.processes.insert(visitor.pid);
  } else if (visitor.who.is_nobody()) {
    return turn_away(visitor, "can't watch the requesting process from here");
  }
  seek(visitor);
}

/// Gives it what is there, or lets it make it, or wait.
void MeetingPlace::seek(Visitor& visitor) {
  const std::string& name = visitor.wants.name;
  const Holding* holding = holdings_.find(name);
  const bool is_another = visitor.wants.other && holding && holding->memory.id == visitor.given;
  if (holding != nullptr && !is_another) return give(visitor, *holding);
  const auto maker = makers_.find(name);
  if (maker == makers_.end()) {
    makers_[name] = visitor.id;
    visitor.state = Visitor::State::Makes;
    return answer(visitor, {{"is", "yours"}});
  }
  waiting_[name].push_back(visitor.id);
  visitor.state = Visitor::State::Waits;
  answer(visitor, {{"is", "awaited"}, {"pid", find(maker->second)->pid}});
}

void MeetingPlace::give(Visitor& visitor, const Holding& holding) {
  visitor.state = Visitor::State::MayAsk;
  visitor.given = holding.memory.id;
  holdings_.add(holding.name, visitor.who);
  answer(visitor, {{"is", "here"}}, {holding.fd.get()});
}

void MeetingPlace::put(Visitor& visitor, os::UniqueFd fd) {
  const Result<void> held =
      holdings_.put(visitor.wants.name, visitor.wants.title, std::move(fd), visitor.who);
  if (!held && held.error().kind == ErrorKind::Full) {
    return turn_away(visitor, held.error().message);
  }
  if (!held) return refuse(visitor, held.error().message);
  visitor.state = Visitor::State::MayAsk;
  makers_.erase(visitor.wants.name);
  answer(visitor, {{"is", "held"}});
  // Its process may have ended before its last words were read.
  if (!processes_.contains(visitor.pid)) holdings_.process_ended(visitor.pid);
  review();
  wake(visitor.wants.name);
}

/// Those who wait for this name are looked at again, in the order in which they came.
void MeetingPlace::wake(const std::string& name) {
  const auto found = waiting_.find(name);
  if (found == waiting_.end()) return;
  const std::vector<std::uint64_t> ids = std::move(found->second);
  waiting_.erase(found);
  for (const std::uint64_t id : ids) {
    Visitor* visitor = find(id);
    if (visitor == nullptr) continue;
    visitor->state = Visitor::State::MayAsk;
    seek(*visitor);
  }
}

/// Its end will be noticed.  False: it is in its own container, or already gone, or one too
/// many.
bool MeetingPlace::follow(pid_t pid) {
  if (processes_.contains(pid)) return true;
  if (pid <= 0 || processes_.size() >= options_.most_processes) return false;
  Result<os::UniqueFd> fd = os::open_handle(pid);
  if (!fd) return false;
  const Result<void> watched =
      loop_.watch(fd->get(), EPOLLIN, [this, pid](std::uint32_t) { process_ended(pid); });
  if (!watched) return false;
  processes_.emplace(pid, *std::move(fd));
  return true;
}

void MeetingPlace::process_ended(pid_t pid) {
  const auto found = processes_.find(pid);
  loop_.unwatch(found->second.get());
  processes_.erase(found);
  std::vector<Visitor*> its;
  for (const auto& visitor : visitors_) {
    if (visitor->pid == pid && visitor->state != Visitor::State::MayAsk) {
      its.push_back(visitor.get());
    }
  }
  for (Visitor* visitor : its) drop(*visitor);
  holdings_.process_ended(pid);
}

void MeetingPlace::review() {
  if (holdings_.has_sweeps()) holdings_.review(options_.can_run);
}

}  // namespace pergpu
