// The count is raised in the child, before fork() returns there.
#include "python/forks.h"

#include <pthread.h>

#include <atomic>

namespace pergpu::python {
namespace {

std::atomic<unsigned> forks{0};

}  // namespace

unsigned forks_so_far() { return forks.load(std::memory_order_relaxed); }

void count_forks() {
  [[maybe_unused]] static const int once =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
}

}  // namespace pergpu::python
