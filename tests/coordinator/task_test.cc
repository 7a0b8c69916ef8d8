// A task that begins while what its jobs need is not told of yet.
#include "daemon/task.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "os/clock.h"
#include "os/fs/file.h"
#include "state/world.h"
#include "store/end_request.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFarFromAMinute = 20 * kSecond;

class TaskBegins : public ::testing::Test {
 protected:
  TaskBegins() { EXPECT_NE(::mkdtemp(folder.data()), nullptr); }
  ~TaskBegins() override { EXPECT_TRUE(os::remove_tree(folder)); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(os::write_file_atomic(folder + "/" + name, text, 0644, false));
  }
  void add_job(std::int64_t id, std::vector<store::HandedNeed> needs) {
    handover.jobs.push_back({.job = {.id = {id}, .sweep = {1}, .step_name = "evaluate"},
                             .state = {.state = JobState::Queued},
                             .needs = std::move(needs)});
  }
  void ask_to_end(const std::vector<std::int64_t>& jobs) const {
    store::EndRequests requests;
    for (const std::int64_t id : jobs) requests.jobs.push_back({.job = {id}, .words = "cancelled"});
    write(store::end_request_name(0), to_text(requests));
  }
  /// Its jobs, in time; nullopt: it waited.
  std::optional<std::vector<JobId>> begin() const {
    write(store::kHandoverName, to_text(handover));
    const std::int64_t began_ns = os::boot_now_ns();
    Result<Task> task = Task::read({.folder = folder});
    if (!task || os::boot_now_ns() - began_ns > kFarFromAMinute) return std::nullopt;
    Result<std::unique_ptr<RecordStore>> store = task->open_store();
    if (!store) return std::nullopt;
    std::vector<JobId> jobs;
    const auto note = [&](const Row& row) -> Result<void> {
      if (const auto* job = std::get_if<row::NewJob>(&row)) jobs.push_back(job->id);
      return {};
    };
    if (!(*store)->load(note, [] { return Result<void>(); })) return std::nullopt;
    return jobs;
  }

  std::string folder = ::testing::TempDir() + "task.XXXXXX";
  const store::HandedNeed never_ran{{1}, folder + "/never"};
  store::Handover handover{
      .key = "s-0", .from = "login1:/x", .sweep = {.id = {1}, .submit = to_text(SubmitRecord{})}};
};

TEST_F(TaskBegins, WithoutWaitingForWhatAJobNeedsThatIsToEnd) {
  add_job(11, {});
  add_job(12, {never_ran});
  add_job(13, {});
  ask_to_end({12});
  EXPECT_EQ(begin(), (std::vector<JobId>{{11}, {13}}));
}

TEST_F(TaskBegins, WithoutWaitingAtABarrierWhenAllAreToEnd) {
  handover.needs = {never_ran};
  add_job(11, {});
  add_job(12, {});
  ask_to_end({11, 12});
  EXPECT_EQ(begin(), std::vector<JobId>{});
}

TEST_F(TaskBegins, WithWhatIsToEndAndWaitsForNothing) {
  write("attempt.json", R"({"job": 2, "state": "done"})");
  handover.needs = {{{2}, folder}};
  add_job(11, {});
  ask_to_end({11});
  EXPECT_EQ(begin(), std::vector<JobId>{{11}}) << "it tells of its end itself";
}

}  // namespace
}  // namespace pergpu
