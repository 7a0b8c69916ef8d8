// The robust list is the C library's, which has one per thread: nodes { previous, next } that are
// linked by the addresses of their `next`, the kernel following `next` only.  Both glibc and musl
// are like this; the distance from a node to its futex is asked for.  Where it does not fit, no
// node is entered: then a death is not hinted at, and survivors find it when they look (several
// times a second).
#include "share/liveness.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/system_calls.h"

namespace pergpu::share {
namespace {

constexpr std::uint32_t kPidBits = 22;
constexpr std::uint32_t kStartBits = 20;
constexpr std::uint32_t kStateBits = 3;
constexpr std::uint32_t kEpochBits = 19;
static_assert(kPidBits + kStartBits + kStateBits + kEpochBits == 64);
constexpr std::uint32_t kEpochMask = (1U << kEpochBits) - 1;

constexpr std::size_t kWordFromEnd = 8;
constexpr int kLongestList = 2048;  // the kernel's own limit
/// A page that a fork empties: a child sees that nothing here is its own.
constexpr std::uint64_t kMark = 0x70657267'70753031;

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::uint32_t low_bits(std::uint64_t value, std::uint32_t bits) {
  return static_cast<std::uint32_t>(value & ((std::uint64_t{1} << bits) - 1));
}

/// Never 0: that is vacant, garbage or not known.
std::uint32_t low_start(std::uint64_t ticks) { return std::max(1U, low_bits(ticks, kStartBits)); }

robust_list_head* list_of_this_thread() {
  robust_list_head* head = nullptr;
  std::size_t size = 0;
  if (::syscall(SYS_get_robust_list, 0, &head, &size) != 0 || size != sizeof(robust_list_head)) {
    return nullptr;
  }
  return head;
}

robust_list* without_flag(robust_list* node) {
  return reinterpret_cast<robust_list*>(reinterpret_cast<std::uintptr_t>(node) &
                                        ~std::uintptr_t{1});
}

/// The slot before `next`, where the C library keeps the way back.
robust_list*& previous_of(robust_list* node) {
  return *(reinterpret_cast<robust_list**>(without_flag(node)) - 1);
}

void compiler_barrier() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

std::atomic<unsigned> forks_so_far{0};

unsigned count_forks() {
  [[maybe_unused]] static const int once =
      ::pthread_atfork(nullptr, nullptr, [] { forks_so_far.fetch_add(1); });
  return forks_so_far.load(std::memory_order_relaxed);
}

Owner Owner::unpack(std::uint64_t word) {
  Owner owner;
  owner.pid = low_bits(word, kPidBits);
  owner.start = low_bits(word >> kPidBits, kStartBits);
  std::uint32_t state = low_bits(word >> (kPidBits + kStartBits), kStateBits);
  constexpr auto kLast = static_cast<std::uint32_t>(PlaceState::Dead);
  owner.state = static_cast<PlaceState>(state <= kLast ? state : kLast);
  owner.epoch = low_bits(word >> (kPidBits + kStartBits + kStateBits), kEpochBits);
  return owner;
}

std::uint64_t Owner::pack() const {
  return std::uint64_t{low_bits(pid, kPidBits)} |
         std::uint64_t{low_bits(start, kStartBits)} << kPidBits |
         std::uint64_t{static_cast<std::uint8_t>(state)} << (kPidBits + kStartBits) |
         std::uint64_t{low_bits(epoch, kEpochBits)} << (kPidBits + kStartBits + kStateBits);
}

Owner Owner::with(PlaceState other) const {
  Owner owner = *this;
  owner.state = other;
  return owner;
}

std::uint32_t next_epoch(std::uint32_t epoch) {
  std::uint32_t next = (epoch + 1) & kEpochMask;
  return next == 0 ? 1 : next;
}

bool is_newer(std::uint32_t epoch, std::uint32_t than) {
  std::uint32_t ahead = (epoch - than) & kEpochMask;
  return ahead != 0 && ahead <= kEpochMask / 2;
}

Owner this_process() {
  Owner owner;
  owner.pid = static_cast<std::uint32_t>(::getpid());
  if (std::optional<os::ProcStat> stat = os::read_stat(::getpid())) {
    owner.start = low_start(stat->start_ticks);
  }
  owner.state = PlaceState::Attached;
  return owner;
}

bool has_ended(const Owner& owner) {
  auto pid = static_cast<pid_t>(owner.pid);
  Result<os::UniqueFd> pidfd = os::open_pidfd(pid);
  if (pidfd) {
    if (os::has_ended(*pidfd)) return true;
  } else {
    int why = pidfd.error().os_errno;
    // EINVAL: the number is that of a thread now, or was never one of a process.
    if (why == ESRCH || why == EINVAL) return true;
    if (why == EMFILE || why == ENFILE) return ::kill(pid, 0) != 0 && errno == ESRCH;
  }
  std::optional<os::ProcStat> stat = os::read_stat(pid);
  if (!stat) return ::kill(pid, 0) != 0 && errno == ESRCH;
  // Without a pidfd a zombie must do; its threads may be about to end still, but none returns to
  // its program.
  if (!pidfd && stat->ended()) return true;
  return owner.start != low_start(stat->start_ticks);
}

bool hints_at_death(const Word& live) {
  std::uint32_t value = live.load(std::memory_order_acquire);
  return (value & FUTEX_OWNER_DIED) != 0 || (value & FUTEX_TID_MASK) == 0;
}

std::optional<std::uint32_t> announce_waiter(Word& live) {
  std::uint32_t value = live.load(std::memory_order_seq_cst);
  while ((value & FUTEX_OWNER_DIED) == 0 && (value & FUTEX_TID_MASK) != 0) {
    if ((value & FUTEX_WAITERS) != 0) return value;
    if (live.compare_exchange_strong(value, value | FUTEX_WAITERS)) return value | FUTEX_WAITERS;
  }
  return std::nullopt;
}

// ---- the hold ----

/// Begins kWordFromEnd bytes behind the liveness word.
struct Hold::Page {
  std::byte before_node[16];
  robust_list* previous;
  robust_list next;
  std::uint64_t mark;
};

Result<Hold> Hold::take(int fd, std::uint64_t offset) {
  static_assert(offsetof(Page, next) + kWordFromEnd == 32, "what glibc's distance is on 64 bits");
  std::size_t page = page_size();
  void* pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return os_error("make room for a place of a channel");
  Hold hold;
  hold.pages_ = static_cast<std::byte*>(pages);
  if (::mmap(pages, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(offset)) == MAP_FAILED) {
    Error error = os_error("map a place of a channel");
    ::munmap(std::exchange(hold.pages_, nullptr), 2 * page);
    return error;
  }
  if (::madvise(hold.pages_ + page, page, MADV_WIPEONFORK) != 0) {
    Error error = os_error("keep a place of a channel from forked processes");
    ::munmap(std::exchange(hold.pages_, nullptr), 2 * page);
    return error;
  }
  reinterpret_cast<Page*>(hold.pages_ + page)->mark = kMark;
  hold.enter_list();
  return hold;
}

Hold::Hold(Hold&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), thread_(other.thread_) {}

Hold& Hold::operator=(Hold&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(thread_, other.thread_);
  return *this;
}

Word* Hold::word() const { return reinterpret_cast<Word*>(pages_ + page_size() - kWordFromEnd); }

bool Hold::is_mine() const {
  return pages_ != nullptr && reinterpret_cast<Page*>(pages_ + page_size())->mark == kMark;
}

void Hold::enter_list() {
  auto* page = reinterpret_cast<Page*>(pages_ + page_size());
  robust_list_head* head = list_of_this_thread();
  thread_ = os::call::gettid();
  long distance = reinterpret_cast<std::byte*>(word()) - reinterpret_cast<std::byte*>(&page->next);
  bool fits = head != nullptr && head->futex_offset == distance;
  if (fits) head->list_op_pending = &page->next;
  compiler_barrier();
  word()->store(static_cast<std::uint32_t>(thread_), std::memory_order_seq_cst);
  compiler_barrier();
  if (fits) {
    robust_list* first = head->list.next;
    page->next.next = first;
    page->previous = &head->list;
    if (without_flag(first) != &head->list) previous_of(first) = &page->next;
    compiler_barrier();
    head->list.next = &page->next;
    compiler_barrier();
    head->list_op_pending = nullptr;
  }
  wake(*word());  // what waited for the one before
}

/// False: another thread's list has it, or none.
bool Hold::leave_list() {
  auto* page = reinterpret_cast<Page*>(pages_ + page_size());
  robust_list_head* head = list_of_this_thread();
  if (head == nullptr) return false;
  robust_list* at = &head->list;
  for (int i = 0; i < kLongestList && without_flag(at)->next != &head->list; ++i) {
    at = without_flag(at);
    if (without_flag(at->next) == &page->next) {
      head->list_op_pending = &page->next;
      compiler_barrier();
      at->next = page->next.next;
      if (without_flag(page->next.next) != &head->list) previous_of(page->next.next) = at;
      compiler_barrier();
      return true;
    }
    at = at->next;
  }
  return false;
}

void Hold::renew() {
  if (!is_mine() || !hints_at_death(*word())) return;
  // Marked by the kernel, that is by the end of our thread: no list has the node any more.  Marked
  // by a process that writes what it likes: then this thread's list may still have it.
  if (leave_list()) list_of_this_thread()->list_op_pending = nullptr;
  if (thread_ == os::call::gettid() || ::syscall(SYS_tgkill, ::getpid(), thread_, 0) != 0)
    enter_list();
}

void Hold::release() {
  if (pages_ == nullptr) return;
  std::size_t page = page_size();
  if (!is_mine()) {
    ::munmap(std::exchange(pages_, nullptr), 2 * page);
    return;
  }
  bool left = leave_list();
  // Another process may have the place by now.
  std::uint32_t value = word()->load();
  while ((value & FUTEX_TID_MASK) == static_cast<std::uint32_t>(thread_) &&
         !word()->compare_exchange_strong(value, 0)) {
  }
  compiler_barrier();
  if (left) list_of_this_thread()->list_op_pending = nullptr;
  wake(*word());
  bool in_other_list =
      !left && thread_ != os::call::gettid() && ::syscall(SYS_tgkill, ::getpid(), thread_, 0) == 0;
  if (in_other_list) {
    // Another living thread's list leads through the node: these two pages stay, without the shared
    // one, until the process ends.
    if (::mmap(pages_, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) != MAP_FAILED) {
      pages_ = nullptr;
      return;
    }
  }
  ::munmap(std::exchange(pages_, nullptr), 2 * page);
}

}  // namespace pergpu::share
