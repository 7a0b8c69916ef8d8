// A thread starts when there is work and none that waits for it: most coordinators need none.
#include "run/errands.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "os/fd.h"

namespace pergpu {

struct Errands::Impl {
  Impl(os::Loop& l, os::UniqueFd fd, std::size_t most)
      : loop(l), done_fd(std::move(fd)), most_threads(most) {}

  void serve() {
    for (;;) {
      std::function<std::function<void()>()> work;
      {
        std::unique_lock<std::mutex> lock(mutex);
        ++idle;
        wake.wait(lock, [this] { return leaving || !queue.empty(); });
        --idle;
        if (leaving) return;
        ++under_way;
        work = std::move(queue.front());
        queue.pop_front();
      }
      std::function<void()> answer = work();
      {
        const std::lock_guard<std::mutex> lock(mutex);
        answers.push_back(std::move(answer));
        --under_way;
      }
      ended.notify_all();
      const std::uint64_t one = 1;
      (void)!::write(done_fd.get(), &one, sizeof one);
    }
  }

  void deliver() {
    std::uint64_t count = 0;
    (void)!::read(done_fd.get(), &count, sizeof count);
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ready.swap(answers);
    }
    for (const std::function<void()>& answer : ready) {
      if (answer) answer();
    }
  }

  os::Loop& loop;
  os::UniqueFd done_fd;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<std::function<void()>()>> queue;
  std::vector<std::function<void()>> answers;
  bool leaving = false;
  const std::size_t most_threads;
  std::size_t idle = 0;
  std::size_t under_way = 0;
  std::condition_variable ended;
  std::vector<std::thread> threads;  // touched by the loop's thread only
};

Result<std::unique_ptr<Errands>> Errands::create(os::Loop& loop, std::size_t most_threads) {
  os::UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return os_error("eventfd");
  auto impl = std::make_unique<Impl>(loop, std::move(fd), most_threads);
  Impl* raw = impl.get();
  Result<void> watched =
      loop.watch(raw->done_fd.get(), EPOLLIN, [raw](std::uint32_t) { raw->deliver(); });
  if (!watched) return std::move(watched).error();
  return std::unique_ptr<Errands>(new Errands(std::move(impl)));
}

Errands::Errands(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

bool Errands::leave(std::chrono::nanoseconds patience) {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  impl_->leaving = true;
  impl_->wake.notify_all();
  return impl_->ended.wait_for(lock, patience, [this] { return impl_->under_way == 0; });
}

Errands::~Errands() {
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->leaving = true;
  }
  impl_->wake.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->loop.unwatch(impl_->done_fd.get());
}

void Errands::run(std::function<std::function<void()>()> work) {
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->queue.push_back(std::move(work));
    const bool are_enough = impl_->idle >= impl_->queue.size();
    if (!are_enough && impl_->threads.size() < impl_->most_threads) {
      impl_->threads.emplace_back([impl = impl_.get()] { impl->serve(); });
    }
  }
  impl_->wake.notify_one();
}

}  // namespace pergpu
