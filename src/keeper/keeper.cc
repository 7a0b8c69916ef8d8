// One thread, one poll().  Order within a turn: children first (an end is reported before anything
// that follows from it), then the connection, then what is due by time.
#include "keeper/keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "keeper/folder.h"
#include "os/fs/boot_id.h"
#include "os/fs/file.h"
#include "os/ipc/socket.h"
#include "os/process/proc.h"

namespace pergpu::keeper {
namespace {

constexpr std::int64_t kAloneNs = 60'000'000'000;  // an idle keeper without a coordinator ends then
constexpr std::int64_t kLookAtFilesNs = 1'000'000'000;
/// A job that ends sooner gets the record of its end only: two files less to make.
constexpr std::int64_t kRecordAfterNs = 100'000'000;
constexpr std::size_t kMostPending = 256 * 1024;  // unread by the coordinator: drop NOTIFY
constexpr std::size_t kMostKept = 16;
constexpr std::size_t kLongestDatagram = 4096;
constexpr int kMostAtOnce = 1024;     // children reaped, datagrams read, in a turn
constexpr int kMostDrained = 10'000;  // datagrams of the attempt before: more than a socket holds

os::UniqueFd watch_children() {
  // Stops and continuations are of no interest.
  struct sigaction quiet = {};
  quiet.sa_handler = SIG_DFL;
  quiet.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &quiet, nullptr);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, nullptr);
  return os::UniqueFd(::signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC));
}

/// The folder and the socket keep others out already; this does not depend on either.
bool is_ours(const os::UniqueFd& socket) {
  const Result<os::PeerCredentials> peer = os::peer_of(socket.get());
  return peer && (peer->uid == ::geteuid() || peer->uid == 0);
}

/// One v2 folder without limits: only there to be ended as a whole.
bool is_plain(const os::Cgroup& group) {
  return !group.limits().any() && group.born_in() >= 0 && group.folders().size() == 1;
}

std::optional<std::int64_t> earlier(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

}  // namespace

Keeper::Keeper(Options options)
    : options_(std::move(options)),
      files_(std::move(options_.files)),
      signals_(watch_children()),
      record_(files_.record(), os::boot_id()),
      revive_(static_cast<std::uint64_t>(os::boot_now_ns()) ^
              (static_cast<std::uint64_t>(::getpid()) << 32)) {
  exit_at_ns_ = os::boot_now_ns() + kAloneNs;
}

int Keeper::run() {
  while (!done_) wait_for_events();
  drop_group();
  return 0;
}

void Keeper::wait_for_events() {
  const bool wants_write = connection_ && connection_->wants_write();
  pollfd fds[5] = {
      {.fd = signals_.get(), .events = POLLIN, .revents = 0},
      {.fd = connection_ ? connection_->fd() : files_.listener(),
       .events = static_cast<short>(wants_write ? POLLIN | POLLOUT : POLLIN),
       .revents = 0},
      {.fd = files_.notify(), .events = POLLIN, .revents = 0},
      {.fd = ready_.fd(), .events = POLLIN, .revents = 0},
      {.fd = attempt_ ? attempt_->memory_fd() : -1, .events = POLLIN, .revents = 0},
  };
  timespec wait = {};
  std::optional<std::int64_t> next = next_time();
  if (more_children_) next = 0;
  if (next) {
    const std::int64_t left = std::max<std::int64_t>(*next - os::boot_now_ns(), 0);
    wait = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  }
  if (::ppoll(fds, 5, next ? &wait : nullptr, nullptr) < 0) return;

  if (fds[2].revents != 0) on_notify();
  if (fds[3].revents != 0 && ready_.is_ready()) notify("READY=1");
  if (fds[4].revents != 0) attempt_->on_memory(os::boot_now_ns());
  if (fds[0].revents != 0 || more_children_) on_children();
  if (fds[1].revents != 0 && connection_) {
    on_connection(fds[1].revents);
  } else if (fds[1].revents != 0) {
    accept_connection();
  }
  on_time();
}

void Keeper::on_children() {
  signalfd_siginfo ignored[4];
  (void)!::read(signals_.get(), ignored, sizeof ignored);
  more_children_ = true;
  for (int i = 0; i < kMostAtOnce; ++i) {  // a job may start processes faster than they are reaped
    const os::ReapResult reaped = os::reap_any();
    if (reaped.child && attempt_) attempt_->on_reaped(*reaped.child, clock_.now());
    if (reaped.child) continue;
    more_children_ = false;
    if (!reaped.any_left && attempt_ && attempt_->first_has_ended()) finish_attempt();
    return;
  }
}

void Keeper::finish_attempt() {
  on_notify();  // what the job said last, before its end
  for (std::string& line : notify_filter_.drain()) send(Notify{attempt_->id(), std::move(line)});
  if (ready_.fd() >= 0 && ready_.is_ready()) notify("READY=1");
  ready_.end();
  Held held;
  held.started = attempt_->started();
  held.exited = attempt_->finish();
  blame_machine_memory(*held.exited);
  const bool group_is_spent = attempt_->has_killed_group();
  attempt_.reset();
  // The coordinator that knows the start writes the record of the end, which says more.  Should it
  // die before that, the next one learns from this what the start knew.
  if (unwritten_) unwritten_of_kept_.push_back(*std::exchange(unwritten_, std::nullopt));
  if (!connection_) write_records_of_kept();
  keep(std::move(held));
  // Limits and counts are one attempt's: the next one gets a new group.  After the report, because
  // it takes a tenth of a millisecond.
  if (group_ && (group_is_spent || !is_plain(*group_))) drop_group();
}

void Keeper::write_record_of_live() {
  oom_kills_before_ = os::machine_oom_kills();
  (void)write_record(*std::exchange(unwritten_, std::nullopt));
}

void Keeper::write_records_of_kept() {
  for (const Start& start : std::exchange(unwritten_of_kept_, {})) write_late_record(start);
}

/// Without a memory group nothing shows which process the kernel killed for want of memory.  That
/// it killed one when this one was killed is good enough, because jobs are to go first.
void Keeper::blame_machine_memory(Exited& exited) {
  const std::optional<std::int64_t> before = std::exchange(oom_kills_before_, std::nullopt);
  if (exited.signal != SIGKILL || exited.oom_kills != 0 || !before) return;
  if (os::machine_oom_kills().value_or(0) > *before) exited.oom_kills = 1;
}

/// The group for an attempt: that of the attempt before where neither has limits.
const os::Cgroup* Keeper::group_for(const Start& request) {
  if (!options_.groups) return nullptr;
  const os::CgroupLimits limits = {.memory_bytes = request.memory_bytes,
                                   .cpu_milli = request.cpu_milli};
  if (group_ && is_plain(*group_) && !limits.any()) return &*group_;
  drop_group();
  Result<os::Cgroup> made =
      os::Cgroup::make(options_.groups, os::cgroup_name(files_.home(), files_.id()), limits);
  if (!made || made->folders().empty()) return nullptr;
  group_ = *std::move(made);
  return &*group_;
}

void Keeper::drop_group() {
  if (group_) os::remove_groups(group_->folders());
  group_.reset();
}

void Keeper::keep(Held held) {
  record_.put(id_of(held), held);
  kept_.push_back(std::move(held));
  const Held& last = kept_.back();
  if (last.exited) send(*last.exited);
  if (last.failed) send(*last.failed);
  if (connection_) return;
  if (options_.ends_alone || !files_.has_home()) {
    exit_at_ns_ = os::boot_now_ns();  // no coordinator will ask
  } else if (after_loss_ == AfterLoss::Wait) {
    exit_at_ns_ = os::boot_now_ns() + kAloneNs;
  }
}

void Keeper::accept_connection() {
  os::UniqueFd fd(::accept4(files_.listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd || !is_ours(fd)) return;
  connection_ = std::make_unique<Connection>(std::move(fd));
  revive_.cancel();
  exit_at_ns_.reset();
}

void Keeper::on_connection(short events) {
  if ((events & POLLOUT) != 0) connection_->flush();
  const bool open = connection_->read();
  while (connection_) {
    const std::optional<Connection::Frame> frame = connection_->next();
    if (!frame) break;
    on_frame(*frame);
  }
  if (!open) lose_connection();
}

void Keeper::lose_connection() {
  connection_.reset();
  if (done_) return;
  if (unwritten_) write_record_of_live();  // the next coordinator doesn't know the start
  write_records_of_kept();
  const std::int64_t now = os::boot_now_ns();
  if (options_.ends_alone) return leave_alone(now);
  restore_files("");  // before the next coordinator looks for them
  look_at_files_ns_ = now + kLookAtFilesNs;
  // Without its home no coordinator comes after this one.
  const std::int64_t alone_ns = files_.has_home() ? kAloneNs : 0;
  if (is_free() || after_loss_ == AfterLoss::Wait) exit_at_ns_ = now + alone_ns;
  if (after_loss_ == AfterLoss::Revive && !options_.pergpu.empty()) revive_.lost(now, yields_);
}

/// So that the next coordinator finds it, and what it holds, wherever it looks.
void Keeper::restore_files(const std::string& folder) {
  const std::string before = files_.record();
  if (!files_.restore(folder) || record_.is_at(files_.record())) return;
  if (record_.is_at(before)) ::unlink(before.c_str());  // it has moved
  record_ = RecordFile(files_.record(), os::boot_id());
  for (const Held& held : kept_) record_.put(id_of(held), held);
  if (attempt_) record_.put(attempt_->id(), Held{.started = attempt_->started()});
}

/// No coordinator comes after this one: what it has started ends with it.
void Keeper::leave_alone(std::int64_t now) {
  if (attempt_) {
    attempt_->stop(/*kill=*/false, now);
  } else {
    exit_at_ns_ = now;
  }
}

/// Without its home no coordinator can take up what it holds, and one that it started would make an
/// empty home there.  Its attempt runs to its end.
void Keeper::leave_to_itself(std::int64_t now) {
  revive_.cancel();
  if (!attempt_) exit_at_ns_ = now;
}

void Keeper::on_frame(const Connection::Frame& frame) {
  const auto with = [&]<typename Message>(std::optional<Message> message, auto handle) {
    if (message) return handle(*std::move(message));
    // Bytes that are no such message: nothing after them can be understood either.
    ::shutdown(connection_->fd(), SHUT_RDWR);
  };
  switch (static_cast<Type>(frame.type)) {
    case Type::Hello:
      return hello();
    case Type::Prepare:
      return with(decode<Prepare>(frame.payload), [&](const Prepare& m) { prepare(m); });
    case Type::Start:
      return with(decode<Start>(frame.payload), [&](Start m) { start(std::move(m)); });
    case Type::Stop:
      return with(decode<Stop>(frame.payload), [&](const Stop& m) { stop(m); });
    case Type::Forget:
      return with(decode<Forget>(frame.payload), [&](const Forget& m) { forget(m); });
    case Type::Quit:
      return with(decode<Quit>(frame.payload), [&](const Quit& m) { quit(m); });
    case Type::Signal:
      return with(decode<Signal>(frame.payload), [&](const Signal& m) { signal(m); });
    case Type::Yield:
      return with(decode<Yield>(frame.payload), [&](const Yield& m) { yields_ = m.yields; });
    case Type::Rebind:
      return with(decode<Rebind>(frame.payload),
                  [&](const Rebind& m) { restore_files(m.run_folder); });
    case Type::State:
    case Type::Started:
    case Type::SpawnFailed:
    case Type::Exited:
    case Type::Memory:
    case Type::Notify:
    case Type::Quiet:
      return;  // ours to send; like unknown types of later releases they are passed over
  }
}

void Keeper::hello() {
  after_loss_ = AfterLoss::Revive;
  yields_ = false;
  State state;
  state.keeper = files_.id();
  state.pid = ::getpid();
  const std::optional<os::ProcStat> self = os::read_stat(state.pid);
  state.start_ticks = self ? self->start_ticks : 0;
  state.home = files_.home();
  state.held = kept_;
  std::vector<int> leases;
  if (attempt_) {
    state.held.push_back(Held{.started = attempt_->started()});
    if (!connection_->wants_write()) leases = attempt_->lease_fds();
  }
  state.lease_count = static_cast<std::uint32_t>(leases.size());
  connection_->send_with(state, leases);
  if (attempt_ && !attempt_->resists().empty()) notify(std::string(kResists) + attempt_->resists());
}

void Keeper::prepare(const Prepare& request) {
  if (!prepare_ahead(request.folder, request.root)) return;  // START does the rest, and reports
  prepared_out_ = request.folder.out;
  prepared_attempt_ = request.folder.attempt;
}

void Keeper::start(Start request) {
  std::vector<os::UniqueFd> leases =
      connection_->take_fds(std::min<std::size_t>(request.lease_count, kMostLeases));
  if (const Held* held = held_of(request.id)) return tell(*held);
  if (attempt_ && attempt_->id() == request.id) return send(attempt_->started());

  const auto refuse = [&](std::string phase, int error, std::string object) {
    Held held;
    held.failed = SpawnFailed{request.id, std::move(phase), error, std::move(object)};
    keep(std::move(held));
  };
  if (attempt_) return refuse("keeper", EBUSY, "attempt " + to_string(attempt_->id()) + " runs");
  if (kept_.size() >= kMostKept) return refuse("keeper", EBUSY, "too many outcomes not forgotten");

  Claim claim = claim_folder(request);
  if (claim.failure)
    return refuse(std::move(claim.failure->phase), claim.failure->os_errno,
                  std::move(claim.failure->object));

  const os::HeldFolder& out = *claim.out;
  // What was prepared ahead may have been changed by another process that had the folder since.
  const bool is_prepared = std::exchange(prepared_out_, {}) == request.folder.out &&
                           prepared_attempt_ == request.folder.attempt && is_fresh(request, out) &&
                           is_prepared_still(request.folder, out);
  if (!is_prepared) {
    if (std::optional<SetupFailure> failure = prepare_folder(request.folder, out))
      return refuse(std::move(failure->phase), failure->os_errno, std::move(failure->object));
  }
  if (std::optional<SetupFailure> failure = lacks_room(request.folder))
    return refuse(std::move(failure->phase), failure->os_errno, std::move(failure->object));

  Taken taken = take_folder(request, out);
  if (taken.failure)
    return refuse(std::move(taken.failure->phase), taken.failure->os_errno,
                  std::move(taken.failure->object));

  if (files_.notify() >= 0) request.env.push_back("PERGPU_NOTIFY=" + files_.notify_path());
  drain_notify();
  notify_filter_ = {};
  ready_.begin(request.ready_path);
  Start record;  // what write_record() needs
  record.id = request.id;
  record.folder.umask = request.folder.umask;
  record.root = request.root;
  record.record_path = request.record_path;
  record.record_at_start = std::move(request.record_at_start);
  const os::Cgroup* group = group_for(request);
  std::variant<Attempt, SpawnFailed> begun = Attempt::begin(
      std::move(request), *std::move(claim.out), std::move(leases), group, claim.lock.release());
  if (auto* failure = std::get_if<SpawnFailed>(&begun)) {
    ready_.end();
    Held held;
    held.failed = std::move(*failure);
    return keep(std::move(held));
  }
  attempt_ = std::get<Attempt>(std::move(begun));
  const Started started = attempt_->started();
  record_.put(started.id, Held{.started = started});
  send(started);
  if (!taken.was_fresh) return;
  unwritten_ = std::move(record);
  record_due_ns_ = os::boot_now_ns() + kRecordAfterNs;
}

void Keeper::stop(const Stop& request) {
  if (attempt_ && attempt_->id() == request.id) attempt_->stop(request.kill, os::boot_now_ns());
}

void Keeper::signal(const Signal& request) {
  if (attempt_ && attempt_->id() == request.id) attempt_->signal(request.number);
}

void Keeper::forget(const Forget& request) {
  if (attempt_ && attempt_->id() == request.id) return;  // it has not ended: a mistake
  const Held* kept = held_of(request.id);
  const bool had_folder = kept == nullptr || !kept->failed || kept->failed->phase != kFolderInUse;
  // A record that can't be written (the disk is full, the folder is gone) changes no outcome.
  if (had_folder) (void)leave_folder(request);
  record_.remove(request.id);
  std::erase_if(unwritten_of_kept_, [&](const Start& start) { return start.id == request.id; });
  std::erase_if(kept_, [&](const Held& held) { return id_of(held) == request.id; });
}

void Keeper::quit(const Quit& request) {
  after_loss_ = request.revive ? AfterLoss::Revive : AfterLoss::Wait;
  if (!is_free()) return;
  remove_files(/*with_record=*/true);
  done_ = true;
}

const Held* Keeper::held_of(AttemptId id) const {
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const Held& held) { return id_of(held) == id; });
  return it == kept_.end() ? nullptr : &*it;
}

void Keeper::tell(const Held& held) {
  if (held.started) send(*held.started);
  if (held.failed) send(*held.failed);
  if (held.exited) send(*held.exited);
}

void Keeper::drain_notify() {
  char datagram[kLongestDatagram];
  for (int i = 0; files_.notify() >= 0 && i < kMostDrained; ++i) {
    if (!os::receive_own(files_.notify(), datagram, sizeof datagram)) return;
  }
}

/// A part of what came: a job may send faster than it is read.
void Keeper::on_notify() {
  char datagram[kLongestDatagram];
  for (int i = 0; i < kMostAtOnce; ++i) {
    const Result<std::size_t> size = os::receive_own(files_.notify(), datagram, sizeof datagram);
    if (!size) return;
    const std::string_view text(datagram, *size);
    for (std::string& line : notify_filter_.accept(text, os::boot_now_ns()))
      notify(std::move(line));
  }
}

void Keeper::notify(std::string line) {
  if (attempt_ && connection_ && connection_->pending() < kMostPending)
    send(Notify{.id = attempt_->id(), .line = std::move(line)});
}

std::optional<std::int64_t> Keeper::next_time() const {
  std::optional<std::int64_t> next = earlier(exit_at_ns_, revive_.next());
  if (attempt_) next = earlier(next, earlier(attempt_->next_time(), notify_filter_.next_due()));
  if (unwritten_) next = earlier(next, record_due_ns_);
  if (!connection_ && look_at_files_ns_ != 0) next = earlier(next, look_at_files_ns_);
  return next;
}

void Keeper::on_time() {
  const std::optional<std::int64_t> next = next_time();
  if (!next) return;
  const std::int64_t now = os::boot_now_ns();
  if (now < *next) return;
  if (attempt_) {
    for (auto& message : attempt_->on_time(now)) std::visit([&](auto& m) { send(m); }, message);
    for (std::string& line : notify_filter_.due(now)) notify(std::move(line));
  }
  if (unwritten_ && now >= record_due_ns_) write_record_of_live();
  if (!connection_ && look_at_files_ns_ != 0 && now >= look_at_files_ns_) {
    restore_files("");
    look_at_files_ns_ = now + kLookAtFilesNs;
  }
  if (revive_.next() && !files_.has_home()) leave_to_itself(now);
  if (revive_.next() && now >= *revive_.next()) {
    start_coordinator(options_.pergpu, files_.home(), files_.run_folder());
    revive_.started(now);
  }
  if (exit_at_ns_ && now >= *exit_at_ns_) {
    exit_at_ns_.reset();
    if (attempt_) return;  // its end sets a new time
    remove_files(/*with_record=*/kept_.empty());
    done_ = true;
  }
}

void Keeper::remove_files(bool with_record) {
  files_.remove();
  if (with_record && record_.is_at(files_.record())) ::unlink(files_.record().c_str());
}

}  // namespace pergpu::keeper
