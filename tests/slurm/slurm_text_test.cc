// What is sent to Slurm and what comes back: texts only.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "job/text.h"
#include "slurm/slurm_queue.h"
#include "slurm/slurm_script.h"
#include "slurm/slurm_words.h"

namespace pergpu::slurm {
namespace {

using std::chrono::milliseconds;

ArrayRequest request() {
  return {.name = "thirteen/train",
          .comment = "thirteen-0123",
          .folder = "/data/runs/.slurm/k",
          .cwd = "/data",
          .command = {"/opt/pergpu", "slurm-task", "/data/runs/.slurm/k"},
          .tasks = {0, 1, 2, 5}};
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Script, AsksForWhatTheStepNeeds) {
  ArrayRequest r = request();
  r.most_at_once = 2;
  r.gpus = 2;
  r.gpu = "a100";
  r.cpus = 8;
  r.memory_bytes = (1u << 30) + 1;
  r.time = milliseconds(61'000);
  r.warning_s = 90;
  r.dependency = "aftercorr:12,afterok:14:15";
  r.nice = 3;
  r.options.partition = "gpu";
  r.options.extra = {"--exclusive", "--licenses=a b"};
  const std::string text = script_text(r);
  for (const char* line :
       {"#SBATCH --job-name=\"thirteen/train\"", "#SBATCH --array=0-2,5%2",
        "#SBATCH --gres=gpu:a100:2", "#SBATCH --cpus-per-task=8", "#SBATCH --mem=1025M",
        "#SBATCH --time=2", "#SBATCH --signal=B:USR2@90",
        "#SBATCH --dependency=aftercorr:12,afterok:14:15", "#SBATCH --kill-on-invalid-dep=yes",
        "#SBATCH --nice=3", "#SBATCH --partition=\"gpu\"", "#SBATCH --exclusive",
        "#SBATCH --licenses=\"a b\"", "#SBATCH --requeue", "trap '' USR1 USR2",
        "exec '/opt/pergpu' 'slurm-task' '/data/runs/.slurm/k'"}) {
    EXPECT_TRUE(has_line(text, line)) << line << "\nin\n" << text;
  }
}

TEST(Script, LeavesOutWhatNobodyAskedFor) {
  const std::string text = script_text(request());
  for (const char* word : {"--gres", "--cpus", "--mem", "--time", "--signal", "--dependency",
                           "--kill-on", "--nice", "--partition", "--account", "5%"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word << "\nin\n" << text;
  }
}

TEST(Script, AwkwardNamesStayInTheirPlace) {
  ArrayRequest r = request();
  r.name = "a b\n#SBATCH --x%j";
  r.folder = "/data/50% \"of\" it's\\";
  r.command = {"/opt/it's", "$(rm)", "a\nb"};
  const std::string text = script_text(r);
  EXPECT_TRUE(has_line(text, "#SBATCH --job-name=\"a_b_#SBATCH_--x_j\"")) << text;
  EXPECT_TRUE(has_line(text, "#SBATCH --output=\"/data/50%% \\\"of\\\" it's\\\\/task-%a.txt\""))
      << text;
  EXPECT_NE(text.find(R"(exec '/opt/it'\''s' '$(rm)' 'a)"), std::string::npos) << text;
}

TEST(Script, AModelThatIsAPatternIsLeftToTheNode) {
  ArrayRequest r = request();
  r.gpus = 1;
  r.gpu = "*H100*";
  EXPECT_TRUE(has_line(script_text(r), "#SBATCH --gres=gpu:1"));
}

RC_GTEST_PROP(Ranges, AreReadAsTheyAreWritten, (std::set<std::uint16_t> some)) {
  const std::vector<int> tasks(some.begin(), some.end());
  const Result<std::vector<int>> read = tasks_of(ranges_text(tasks));
  RC_ASSERT(static_cast<bool>(read));
  RC_ASSERT(*read == tasks);
}

TEST(Ranges, UnderstandsWhatSlurmPrints) {
  EXPECT_EQ(*tasks_of("3-5,9%2"), (std::vector<int>{3, 4, 5, 9}));
  EXPECT_EQ(*tasks_of("0-8:4"), (std::vector<int>{0, 4, 8}));
  for (const char* text : {"a", "3-", "-3", "5-3", "0-99999999999", "1:0", "0-8:x", ","}) {
    EXPECT_FALSE(tasks_of(text)) << text;
  }
}

std::string line(std::initializer_list<const char*> columns) {
  std::string out;
  for (const char* column : columns) out += std::string(column) + "   \x1f";
  return out + "\n";
}

TEST(Queue, ReadsTasksAndTheRestOfAnArray) {
  const std::string text =
      line({"15", "13", "1", "RUNNING", "None", "n0", "s-1", "0", "1", "r"}) +
      line({"13", "13", "2-3", "PENDING", "Resources", "", "s-1", "0", "0", "r"}) +
      line({"12", "N/A", "N/A", "FAILED", "NonZeroExitCode", "n0", "(null)", "256", "0", "r"});
  const auto queue = parse_queue(text);
  ASSERT_TRUE(queue) << queue.error().message;
  ASSERT_EQ(queue->size(), 3u);
  EXPECT_EQ((*queue)[0].tasks, std::vector<int>{1});
  EXPECT_EQ((*queue)[0].nodes, "n0");
  EXPECT_EQ((*queue)[0].restarts, 1);
  EXPECT_EQ((*queue)[1].tasks, (std::vector<int>{2, 3}));
  EXPECT_EQ((*queue)[1].reason, "Resources");
  EXPECT_EQ((*queue)[2].exit_code, 1);
  EXPECT_EQ((*queue)[2].array_job_id, 12);
  EXPECT_TRUE((*queue)[2].tasks.empty());
}

TEST(Queue, AListThatIsCutLosesWhatMayBeHalfANumberAndSaysThatThereIsMore) {
  const auto read = [](const std::string& list) {
    const auto queue =
        parse_queue(line({"13", "13", list.c_str(), "PENDING", "", "", "k", "0", "0", "r"}));
    EXPECT_TRUE(queue && queue->size() == 1) << list;
    return queue && queue->size() == 1 ? queue->front() : QueueRecord{};
  };
  std::string list;
  while (list.size() < 396) list += "11,";  // then "11,1234,…" with 400 bytes of it
  std::vector<int> tasks(list.size() / 3, 11);
  const QueueRecord cut = read(list + "1234");
  EXPECT_TRUE(cut.is_cut) << "of 1234 there may be more: 12345";
  EXPECT_EQ(cut.tasks, tasks);
  const QueueRecord whole = read(list + "123");
  EXPECT_FALSE(whole.is_cut);
  tasks.push_back(123);
  EXPECT_EQ(whole.tasks, tasks);
  EXPECT_NE(queue_format().find("ArrayTaskID:400"), std::string::npos) << "what squeue cuts at";
}

TEST(Queue, RefusesWhatItDoesNotUnderstand) {
  EXPECT_FALSE(parse_queue("slurm_load_jobs error: Unable to contact\n"));
  EXPECT_FALSE(parse_queue(line({"x", "13", "1", "RUNNING", "", "", "", "0", "0", "r"})));
  EXPECT_TRUE(parse_queue("")->empty());
}

TEST(Queue, KnowsWhatIsOver) {
  for (const char* state : {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED",
                            "REQUEUED", "REQUEUE_HOLD", "STOPPED", "RESIZING", "SIGNALING"}) {
    EXPECT_FALSE(is_over(state)) << state;
  }
  for (const char* state : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                            "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"}) {
    EXPECT_TRUE(is_over(state)) << state;
  }
}

TEST(Config, TellsHowLongAnArrayMayBe) {
  const Config config = parse_config(
      "Configuration data as of 2026-11-24\nAccountingStorageType   = accounting_storage/none\n"
      "MaxArraySize            = 10001\n");
  EXPECT_EQ(config.max_array_size, 10001);
  EXPECT_FALSE(config.has_accounting);
  EXPECT_EQ(parse_config("").max_array_size, 1001);
}

TEST(Config, TellsHowManyTasksAnArrayMayHave) {
  const auto of = [](const std::string& parameters) {
    return parse_config("Configuration data\nSchedulerParameters     = " + parameters +
                        "\nSchedulerType           = sched/backfill\n")
        .max_array_tasks;
  };
  EXPECT_EQ(of("max_array_tasks=40"), 40);
  EXPECT_EQ(of("batch_sched_delay=0,max_array_tasks=200,bf_interval=1"), 200);
  for (const char* none :
       {"", "(null)", "bf_interval=1", "max_array_tasks=", "max_array_tasks=x"}) {
    EXPECT_EQ(of(none), 0) << none;
  }
}

TEST(Words, SayWhatAReasonMeans) {
  EXPECT_EQ(reason_words("Resources"), "waits for free resources of the cluster");
  EXPECT_EQ(reason_words("AssocGrpGRES"), "waits for a limit of its association (AssocGrpGRES)");
  EXPECT_EQ(reason_words("ReqNodeNotAvail, UnavailableNodes:n0"),
            "waits: nodes it needs aren't available");
  EXPECT_EQ(reason_words("SomethingNew"), "waits; Slurm says: SomethingNew");
}

TEST(SlurmAccounting, TellsHowTasksEnded) {
  const Result<std::vector<QueueRecord>> parsed = parse_accounting(
      "12_0|COMPLETED|0:0|n0\n12_1|CANCELLED by 1000|0:15|n1\n12_[2-3%2]|PENDING|0:0|None "
      "assigned\n"
      "13|FAILED|2:0|n0\n14_7|FAILED|2:0|n0\n");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 4u);
  EXPECT_EQ((*parsed)[1].state, "CANCELLED");
  EXPECT_EQ((*parsed)[1].signal, 15);
  EXPECT_EQ((*parsed)[2].tasks, (std::vector<int>{2, 3}));
  EXPECT_EQ((*parsed)[3].array_job_id, 14);
  EXPECT_EQ((*parsed)[3].exit_code, 2);
  for (const char* line :
       {"12_x|FAILED|1:0|n0", "12_1|FAILED", "12_1|A|0:0|n0|more", "_1|A|0:0|n"}) {
    EXPECT_FALSE(parse_accounting(line)) << line;
  }
}

TEST(SlurmSteps, AreFoundByTheirNames) {
  const std::string x = "\x1f";
  const Result<std::vector<QueueRecord>> steps =
      parse_steps("4711.interactive" + x + " sh " + x + " RUNNING " + x + " n0 " + x +
                  "\n4711.3   " + x + "s-0123 " + x + "RUNNING" + x + "n1" + x + "\n\n");
  ASSERT_TRUE(steps);
  ASSERT_EQ(steps->size(), 2u);
  const QueueRecord& step = steps->back();
  EXPECT_EQ(step.comment, "s-0123");
  EXPECT_EQ(step.array_job_id, 4711);
  EXPECT_EQ(step.tasks, std::vector<int>{0});
  EXPECT_EQ(step.state, "RUNNING");
  EXPECT_EQ(step.nodes, "n1");
  EXPECT_FALSE(parse_steps("4711.3 s-0123 RUNNING"));
}

}  // namespace
}  // namespace pergpu::slurm
