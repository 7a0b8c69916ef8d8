// The helper answers with one line of JSON, {"ok":true} or {"ok":false,"said":"HTTP 503"}; one that
// ends without it did not send anything that is known to have arrived.
#include "notify/messenger.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "os/clock.h"
#include "os/process/child.h"
#include "os/process/spawn.h"
#include "run/run_program.h"

namespace pergpu {
namespace {

Error unavailable(std::string why) { return Error{ErrorKind::Unavailable, 0, std::move(why)}; }

Result<void> answer_of(int fd) {
  char text[4096];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  const nlohmann::json said =
      nlohmann::json::parse(text, text + (n > 0 ? n : 0), nullptr, /*allow_exceptions=*/false);
  const auto ok = said.is_object() ? said.find("ok") : said.end();
  if (!said.is_object() || ok == said.end() || !ok->is_boolean())
    return unavailable("the helper process exited without a result");
  if (ok->get<bool>()) return {};
  const auto why = said.find("said");
  const bool has_words = why != said.end() && why->is_string();
  return unavailable(has_words ? why->get<std::string>() : "it wasn't delivered");
}

}  // namespace

struct Messenger::Helper {
  os::Spawned process = {};
  os::UniqueFd said = {};
  os::Loop::TimerId timer = 0;
  std::function<void(Result<void>)> done = {};  // empty: it has run
};

Messenger::Messenger(os::Loop& loop, std::string pergpu_program)
    : loop_(loop),
      pergpu_program_(std::move(pergpu_program)),
      alive_(std::make_shared<bool>(true)) {}

Messenger::~Messenger() { *alive_ = false; }

void Messenger::finish(const std::shared_ptr<Helper>& helper, Result<void> sent) {
  if (helper->timer != 0) loop_.cancel(std::exchange(helper->timer, 0));
  if (const auto done = std::exchange(helper->done, {})) done(std::move(sent));
}

void Messenger::fail_later(const std::shared_ptr<Helper>& helper, std::string why) {
  loop_.at(os::boot_now_ns(), [this, helper, why = std::move(why), alive = alive_] {
    if (*alive) finish(helper, unavailable(why));
  });
}

void Messenger::send(const std::string& request, std::int64_t limit_ns,
                     std::function<void(Result<void>)> done) {
  auto helper = std::make_shared<Helper>();
  helper->done = std::move(done);
  Result<os::UniqueFd> asked = memory_file(request);
  Result<os::UniqueFd> said = memory_file("");
  if (!asked) return fail_later(helper, asked.error().message);
  if (!said) return fail_later(helper, said.error().message);
  helper->said = std::move(*said);
  os::SpawnPlan plan;
  plan.argv = {pergpu_program_, "notify", "send"};
  plan.env = os::own_environment();
  plan.cwd = "/";
  plan.stdin_fd = asked->get();
  plan.stdout_fd = helper->said.get();
  plan.parent_death_signal = SIGKILL;  // the next coordinator sends it again
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result))
    return fail_later(helper,
                      os_error("can't start " + pergpu_program_, failure->os_errno).message);
  helper->process = std::get<os::Spawned>(std::move(result));
  const int fd = helper->process.pidfd.get();
  const Result<void> watched =
      loop_.watch(fd, EPOLLIN, [this, &loop = loop_, helper, alive = alive_, fd](std::uint32_t) {
        loop.unwatch(fd);
        (void)os::reap(helper->process.pid);
        helper->process = {};
        if (*alive) finish(helper, answer_of(helper->said.get()));
      });
  if (!watched) {
    (void)os::send_signal(helper->process.pidfd, SIGKILL);
    return fail_later(helper, watched.error().message);
  }
  helper->timer = loop_.at(os::boot_now_ns() + limit_ns, [this, helper, alive = alive_] {
    helper->timer = 0;
    (void)os::send_signal(helper->process.pidfd, SIGKILL);
    if (*alive) finish(helper, unavailable("it timed out"));
  });
}

}  // namespace pergpu
