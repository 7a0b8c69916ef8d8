// The helper is waited for by its pidfd.  One that cannot even be killed (it reads /proc of a
// process that the kernel holds) is left to itself; who waits for the stacks goes on.
#include "run/stack_writer.h"

#include <signal.h>
#include <sys/epoll.h>

#include <optional>
#include <utility>

#include "os/clock.h"
#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu {

struct StackWriter::Helper {
  os::Spawned process = {};
  os::Loop::TimerId timer = 0;
  std::function<void(bool)> done = {};  // empty: it has run
};

StackWriter::StackWriter(os::Loop& loop, std::string pergpu_program)
    : loop_(loop),
      pergpu_program_(std::move(pergpu_program)),
      alive_(std::make_shared<bool>(true)) {}

StackWriter::~StackWriter() { *alive_ = false; }

void StackWriter::finish(const std::shared_ptr<Helper>& helper, bool written) {
  if (helper->timer != 0) loop_.cancel(std::exchange(helper->timer, 0));
  if (const auto done = std::exchange(helper->done, {})) done(written);
}

void StackWriter::write(std::int32_t root, const std::string& path,
                        std::function<void(bool)> done) {
  auto helper = std::make_shared<Helper>();
  helper->done = std::move(done);
  os::SpawnPlan plan;
  plan.argv = {pergpu_program_, "stacks", "--below", std::to_string(root), "--out", path};
  plan.env = os::own_environment();
  plan.cwd = "/";
  plan.umask = 077;  // the sweep's may be narrower than ours
  plan.parent_death_signal = SIGKILL;
  os::SpawnResult result = os::spawn(plan);
  const auto fail_later = [this, helper] {
    loop_.at(os::boot_now_ns(), [this, helper, alive = alive_] {
      if (*alive) finish(helper, false);
    });
  };
  if (std::holds_alternative<os::SpawnFailure>(result)) return fail_later();
  helper->process = std::get<os::Spawned>(std::move(result));
  const int fd = helper->process.pidfd.get();
  const Result<void> watched =
      loop_.watch(fd, EPOLLIN, [this, &loop = loop_, helper, alive = alive_, fd](std::uint32_t) {
        loop.unwatch(fd);
        const std::optional<os::Reaped> reaped = os::reap(helper->process.pid);
        helper->process = {};
        if (*alive) finish(helper, reaped && reaped->status == os::ExitStatus(os::Exited{0}));
      });
  if (!watched) return fail_later();
  helper->timer = loop_.at(os::boot_now_ns() + kStacksNs, [this, helper, alive = alive_] {
    helper->timer = 0;
    (void)os::send_signal(helper->process.pidfd, SIGKILL);
    if (*alive) finish(helper, true);  // it writes as it goes: something may be there
  });
}

}  // namespace pergpu
