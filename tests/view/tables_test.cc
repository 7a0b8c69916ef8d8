// Tables as people see them: golden texts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "view/commands/gpus.h"
#include "view/commands/jobs.h"
#include "view/commands/results.h"
#include "view/commands/show.h"
#include "view/model/job_facts.h"
#include "view/model/metrics.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/table.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

constexpr std::int64_t kNow = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

JobSnapshot job(std::int64_t id, std::string run, std::int64_t index, std::string step,
                std::string state) {
  JobSnapshot j;
  j.id = id;
  j.sweep = "thirteen";
  j.run = std::move(run);
  j.index = index;
  j.step = std::move(step);
  j.state = std::move(state);
  return j;
}

std::vector<JobSnapshot> some_jobs() {
  JobSnapshot done = job(17, "00-method=ddpm", 0, "train", "done");
  done.attempt = 1;
  done.duration_s = 123;
  JobSnapshot running = job(18, "01-method=edm", 1, "train", "running");
  running.attempt = 2;
  running.lane = "gpu1";
  running.started_at = kNow - 65 * kSecond;
  running.expected_s = 3600;
  JobSnapshot failed = job(19, "02-method=flow", 2, "train", "failed");
  failed.attempt = 1;
  failed.duration_s = 0.42;
  failed.exit = 3;
  failed.reason = "exit code 3";
  failed.log = "/runs/thirteen/02-method=flow/train/log.txt";
  JobSnapshot queued = job(20, "00-method=ddpm", 0, "evaluate", "queued");
  queued.reason = "waits for a free lane";
  return {done, running, failed, queued};
}

SweepSnapshot some_sweep() {
  SweepSnapshot sweep;
  sweep.id = 3;
  sweep.name = "thirteen";
  sweep.steps = {"train", "evaluate"};
  sweep.columns = {"method"};
  sweep.rows = {{"ddpm"}, {"edm"}, {"flow"}};
  sweep.runs = {"00-method=ddpm", "01-method=edm", "02-method=flow"};
  return sweep;
}

int widest_line(const std::string& text) {
  std::istringstream lines(text);
  int widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, columns_of(safe_line(line)));
  }
  return widest;
}

TEST(PsTable, OneLineAJob) {
  EXPECT_EQ(
      ps_table(some_jobs(), kNow, Style{}),
      "ID  JOB                               STATE                 TIME  LANE  REASON\n"
      "17  thirteen/00-method=ddpm/train     done                 2m03s  -\n"
      "18  thirteen/01-method=edm/train      running #2  1m05s / ~1h00m  gpu1\n"
      "19  thirteen/02-method=flow/train     failed                0.4s  -     exit code 3\n"
      "20  thirteen/00-method=ddpm/evaluate  queued                   -  -     waits for a free "
      "lane\n");
}

TEST(PsTable, IsCutToTheTerminal) {
  for (const int width : {20, 40, 60, 80, 100}) {
    Style style;
    style.width = width;
    style.colour = true;
    EXPECT_LE(widest_line(ps_table(some_jobs(), kNow, style)), width);
  }
}

TEST(PsTable, StatesAreWordsWithAndWithoutColour) {
  Style style;
  style.colour = true;
  const std::string coloured = ps_table(some_jobs(), kNow, style);
  EXPECT_NE(coloured.find("\x1b[1;31mfailed\x1b[0m"), std::string::npos);
  EXPECT_EQ(ps_table(some_jobs(), kNow, Style{}).find('\x1b'), std::string::npos);
}

TEST(PsTable, TextsOfJobsAreNeutralised) {
  JobSnapshot evil = job(1, "00-a", 0, "s", "failed");
  evil.reason = "\x1b]0;owned\x07\n\x1b[2Jsecond line";
  const std::string table = ps_table({evil}, kNow, Style{});
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
}

TEST(PsTable, OnceStepsAndOlderVersionsAreNamed) {
  JobSnapshot once;
  once.id = 5;
  once.sweep = "thirteen";
  once.step = "classifier";
  once.state = "done";
  once.replaced = true;
  once.warnings = {"train.py changed"};
  EXPECT_EQ(ps_table({once}, kNow, Style{}),
            "ID  JOB                        STATE  TIME  LANE  REASON\n"
            " 5  thirteen/_once/classifier  done      -  -     older version; warning: train.py "
            "changed\n");
}

TEST(FinalTable, ARowPerRunWithParametersStepsAndMetrics) {
  const MetricsOfJobs metrics = {{17, {{"step", "100"}, {"loss", "0.41"}}},
                                 {18, {{"step", "50"}, {"loss", "0.73"}}}};
  EXPECT_EQ(final_table(some_sweep(), some_jobs(), metrics, Style{}),
            "RUN  method  train        evaluate  step  loss\n"
            "00   ddpm    done 2m03s   queued     100  0.41\n"
            "01   edm     running                  50  0.73\n"
            "02   flow    failed 0.4s\n");
}

TEST(FinalTable, MetricsOfTwoStepsDoNotHideEachOther) {
  const MetricsOfJobs metrics = {{17, {{"loss", "0.41"}}}, {20, {{"loss", "7"}, {"fid", "12.5"}}}};
  EXPECT_EQ(final_table(some_sweep(), some_jobs(), metrics, Style{}),
            "RUN  method  train        evaluate  train.loss  evaluate.loss   fid\n"
            "00   ddpm    done 2m03s   queued          0.41              7  12.5\n"
            "01   edm     running\n"
            "02   flow    failed 0.4s\n");
}

TEST(FinalTable, ANarrowTerminalLosesMetricsAndSaysSo) {
  const MetricsOfJobs metrics = {{17, {{"loss", "0.41"}, {"accuracy", "0.99"}, {"lr", "0.001"}}}};
  Style style;
  style.width = 44;
  EXPECT_EQ(final_table(some_sweep(), some_jobs(), metrics, style),
            "RUN  method  train        evaluate  loss\n"
            "00   ddpm    done 2m03s   queued    0.41\n"
            "01   edm     running\n"
            "02   flow    failed 0.4s\n"
            "(2 more metrics: use a wider terminal, or see metrics.jsonl in each run's folder)\n");
}

TEST(FinalTable, OlderVersionsAreLeftOutAndOnceStepsComeLastByTheirName) {
  std::vector<JobSnapshot> jobs = some_jobs();
  jobs[2].replaced = true;
  JobSnapshot once;
  once.id = 16;
  once.step = "classifier";
  once.state = "done";
  once.attempt = 1;
  once.duration_s = 12;
  jobs.push_back(once);
  SweepSnapshot sweep = some_sweep();
  sweep.steps = {"classifier", "train", "evaluate"};
  EXPECT_EQ(final_table(sweep, jobs, {}, Style{}),
            "RUN         method  classifier  train       evaluate\n"
            "00          ddpm                done 2m03s  queued\n"
            "01          edm                 running\n"
            "classifier          done 12s\n");
}

TEST(Failures, LogAndItsLastLines) {
  const TailsOfJobs tails = {{19, {"Traceback", "\x1b[31mValueError: lr\x1b[0m"}}};
  EXPECT_EQ(failures(some_sweep(), some_jobs(), tails, 10, Style{}),
            "\nfailed 19 thirteen/02-method=flow/train: exit code 3\n"
            "  /runs/thirteen/02-method=flow/train/log.txt\n"
            "  | Traceback\n"
            "  | ValueError: lr\n");
}

TEST(Failures, ManyAreCounted) {
  std::vector<JobSnapshot> jobs(5, some_jobs()[2]);
  const std::string text = failures(some_sweep(), jobs, {}, 2, Style{});
  EXPECT_NE(text.find("and 3 more failed: pergpu ps -a thirteen"), std::string::npos);
}

TEST(Counts, EachWithItsWord) {
  EXPECT_EQ(counts_text(counts_of(some_jobs()), Style{}), "1 done, 1 failed, 1 running, 1 queued");
  EXPECT_EQ(counts_text({}, Style{}), "no jobs");
  EXPECT_EQ(counts_text({{"frozen", 2}}, Style{}), "2 frozen");
}

TEST(WhyText, ReasonsBelowTheName) {
  EXPECT_EQ(why_text({{.id = 17, .name = "t/00/train", .state = "queued", .why = "a\nb"}}, Style{}),
            "17 t/00/train: queued\n    a\n    b\n");
}

TEST(WhyText, ABareExitCodeComesWithTheEndOfTheLogAndTheWayToAllOfIt) {
  EXPECT_EQ(why_text({{.id = 17,
                       .name = "t/00/train",
                       .state = "failed",
                       .why = "exit code 1",
                       .last_line = "no such data set"}},
                     Style{}),
            "17 t/00/train: failed\n    exit code 1\n    last line of its log: no such data set\n"
            "    whole log: pergpu logs 17\n");
}

TEST(WhyText, DoneJobsAreCountedUnlessOneIsAskedFor) {
  const Why done = {.id = 1, .name = "t/00/train", .state = "done", .why = "done"};
  const Why failed = {.id = 2, .name = "t/01/train", .state = "failed", .why = "exit code 3"};
  EXPECT_EQ(why_text({done}, Style{}), "1 t/00/train: done\n    done\n");
  EXPECT_EQ(why_text({done, failed}, Style{}),
            "2 t/01/train: failed\n    exit code 3\n1 job of sweep t is done\n");
  EXPECT_EQ(why_text({done, done}, Style{}), "2 jobs of sweep t are done\n");
  const Why other = {.id = 3, .name = "u/00/train", .state = "done", .why = "done"};
  EXPECT_EQ(why_text({done, other}, Style{}), "2 jobs of 2 sweeps are done\n");
  const Why simulated = {.id = 3, .name = "t/02/train", .state = "done", .why = "done\nwarning: w"};
  EXPECT_EQ(why_text({simulated, simulated}, Style{}),
            "2 jobs of sweep t are done\n    warning: w\n");
  EXPECT_EQ(why_text({done, simulated}, Style{}), "2 jobs of sweep t are done\n");
}

TEST(GpusTable, ForeignProcessesAreNamed) {
  GpuSnapshot free;
  free.index = 0;
  free.uuid = "GPU-aa";
  free.name = "NVIDIA H100";
  free.state = "free";
  free.lanes = {"gpu0"};
  free.memory_bytes = 80LL << 30;
  GpuSnapshot foreign = free;
  foreign.index = 1;
  foreign.uuid = "GPU-bb";
  foreign.state = "foreign";
  foreign.lanes = {"gpu1"};
  foreign.used_bytes = 21LL << 30;
  GpuHolder alice;
  alice.pid = 99;
  alice.user = "alice";
  alice.command = "python";
  alice.memory_bytes = 21LL << 30;
  GpuHolder unknown;
  unknown.pid = 4711;
  foreign.holders = {alice, unknown};
  Devices devices;
  devices.gpus = {free, foreign};
  devices.cpu_lanes = 4;
  EXPECT_EQ(gpus_table(devices, Style{}),
            "GPU  NAME         UUID    STATE                 MEMORY  LANES  USED BY\n"
            "  0  NVIDIA H100  GPU-aa  free          0 B / 80.0 GiB  gpu0\n"
            "  1  NVIDIA H100  GPU-bb  foreign  21.0 GiB / 80.0 GiB  gpu1   alice/python 21.0 GiB, "
            "pid 4711 (unknown holder)\n"
            "CPU lanes: 4\n");
}

TEST(GpusTable, WhatGpusDoAndHowLongTheyHadNothingToDoIsShownWhereItIsKnown) {
  GpuSnapshot busy{.uuid = "GPU-aa", .name = "H100", .state = "busy", .lanes = {"gpu0"}};
  busy.busy_percent = 97;
  busy.power_w = 640.4;
  busy.temperature_c = 71;
  busy.throttle = {"power-cap"};
  const GpuSnapshot free{
      .uuid = "GPU-bb", .index = 1, .name = "H100", .state = "free", .lanes = {"gpu1"}};
  Devices devices;
  devices.gpus = {busy, free};
  devices.lanes = {{.name = "gpu0", .uuid = "GPU-aa", .state = "busy", .idle_s = 2.0},
                   {.name = "gpu1", .uuid = "GPU-bb", .state = "free", .idle_s = 63.0}};
  devices.lanes[0].job = 17;
  EXPECT_EQ(gpus_table(devices, Style{}),
            "GPU  NAME  UUID    STATE     MEMORY  LANES  DOING                           IDLE  "
            "USED BY\n"
            "  0  H100  GPU-aa  busy   0 B / 0 B  gpu0   97 %, 640 W, 71 °C, power-cap   2.0s  "
            "job 17\n"
            "  1  H100  GPU-bb  free   0 B / 0 B  gpu1   -                              1m03s\n");
}

TEST(GpusTable, AMachineWithoutGpusSaysWhy) {
  Devices devices;
  devices.trouble = "no NVIDIA driver";
  EXPECT_EQ(gpus_table(devices, Style{}), "no GPUs\nno NVIDIA driver\n");
}

TEST(ShowText, FactsThenAttempts) {
  nlohmann::json whole = some_jobs()[2];
  whole["class"] = "exit";
  whole["command"] = {"python3", "train.py", "--name", "it's"};
  whole["params"] = {{"method", "flow"}};
  whole["of_tomorrow"] = 7;
  whole["why"] = whole["reason"];
  whole["attempts"] = {{{"number", 1}, {"class", "exit"}, {"exit", 3}, {"duration_s", 0.42}},
                       {{"number", 2}, {"class", "signal"}, {"signal", 9}},
                       {{"number", 3}, {"class", "timeout"}, {"signal", 15}},
                       {{"number", 4}, {"class", "exit"}, {"state", "failed"}, {"exit", 3}}};
  EXPECT_EQ(show_text(whole, kNow, Style{}),
            "19 thirteen/02-method=flow/train\n"
            "  state     failed (exit): exit code 3\n"
            "  time      0.4s\n"
            "  params    method=flow\n"
            "  command   python3 train.py --name 'it'\\''s'\n"
            "  log       /runs/thirteen/02-method=flow/train/log.txt\n"
            "  attempt   1\n"
            "  retries   0 left\n"
            "  of_tomorrow 7\n"
            "\n"
            "ATTEMPT  OUTCOME            STARTED  TIME  LANE  REASON\n"
            "      1  exit 3             -        0.4s  -\n"
            "      2  signal 9           -           -  -\n"
            "      3  timeout signal 15  -           -  -\n"
            "      4  failed exit 3      -           -  -\n");
}

TEST(ShowText, UsageHasALineForEachPartOfTheMachineThatIsKnown) {
  nlohmann::json whole = some_jobs()[2];
  whole["usage"] = {{"readings", 60},
                    {"now", {{"cores", 0.5}, {"resident_bytes", 1048576}}},
                    {"mean", {{"cores", 1.234}, {"gpu_busy_percent", 96.6}, {"gpu_power_w", 300}}},
                    {"most", {{"resident_bytes", 2097152}, {"processes", 9}}},
                    {"read_bytes", 1024},
                    {"throttle", {"power-cap", "hw-thermal"}}};
  whole["learnt"] = {{"jobs", 3}, {"duration_s", 63.0}, {"memory_bytes", nullptr}};
  const std::string text = show_text(whole, kNow, Style{});
  for (const char* line :
       {"  usage     0.50 cores now, 1.23 cores on average, 9 processes at most\n",
        "            memory 1.0 MiB now, 2.0 MiB at most\n", "            disk 1.0 KiB read\n",
        "            GPU 97 % busy on average, 300 W on average, slowed by power-cap, hw-thermal\n",
        "  learned   1m03s (from 3 similar jobs)\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(ShowText, NoUsageIsNoLine) {
  nlohmann::json whole = some_jobs()[2];
  whole["usage"] = nullptr;
  EXPECT_EQ(show_text(whole, kNow, Style{}).find("usage"), std::string::npos);
}

TEST(ShowText, NewestMetricsInWords) {
  nlohmann::json whole = some_jobs()[2];
  whole["metrics"] = "/runs/metrics.jsonl";
  whole["last_metrics"] = {
      {"step", 300}, {"loss", 0.123456}, {"accuracy", 0.98}, {"grad", "nan"}, {"at", "step 3"}};
  whole["last_metrics_at"] = rfc3339(kNow - 4'000'000'000);
  const auto has = [&](const char* line) {
    const std::string text = show_text(whole, kNow, Style{});
    return text.find(line) != std::string::npos && text.find("last_metrics") == std::string::npos;
  };
  EXPECT_TRUE(
      has("  metrics   accuracy 0.98, at step 3, grad nan, loss 0.12346 (step 300, 4 s ago)\n"
          "            /runs/metrics.jsonl\n"));
  whole["last_metrics_file"] = "/runs/events.out.tfevents.1";
  EXPECT_TRUE(has("4 s ago)\n            /runs/events.out.tfevents.1\n"));
  whole["last_metrics"] = {{"epoch", 3}};
  whole["last_metrics_at"] = rfc3339(kNow + 4'000'000'000);  // another machine's clock
  EXPECT_TRUE(has("  metrics   epoch 3 (0 s ago)\n"));
  whole["last_metrics"] = nlohmann::json::object();
  whole["last_metrics_at"] = nullptr;
  whole["last_metrics_file"] = nullptr;
  EXPECT_TRUE(has("  metrics   /runs/metrics.jsonl\n"));
  for (int i = 0; i < 20; ++i) whole["last_metrics"]["m" + std::to_string(i)] = i;
  whole["last_metrics_at"] = rfc3339(kNow - 3600 * 1'000'000'000LL);
  EXPECT_TRUE(has(", and 8 more (1h00m ago)\n"));
}

TEST(Metrics, ScalarsInTheOrderWritten) {
  const Metrics metrics =
      metrics_of_line(R"({"step":100,"loss":0.412345678,"ok":true,"name":"a","nested":{"x":1}})");
  EXPECT_EQ(metrics_text(metrics), "step 100, loss 0.41235, ok true, name a");
}

TEST(Metrics, ADivergedLossIsShown) {
  EXPECT_EQ(metrics_text(metrics_of_line(R"({"loss": NaN, "grad": -Infinity, "s": "NaN"})")),
            "loss nan, grad -inf, s NaN");
}

TEST(Metrics, AHalfWrittenLineIsNone) {
  EXPECT_TRUE(metrics_of_line(R"({"step":100,"lo)").empty());
  EXPECT_TRUE(metrics_of_line("[1]").empty());
  EXPECT_TRUE(metrics_of_line("").empty());
}

TEST(Quantity, Durations) {
  EXPECT_EQ(duration_text(-1), "-");
  EXPECT_EQ(duration_text(0.04), "0.0s");
  EXPECT_EQ(duration_text(9.94), "9.9s");
  EXPECT_EQ(duration_text(9.97), "10s");
  EXPECT_EQ(duration_text(59.97), "1m00s");
  EXPECT_EQ(duration_text(3599.9), "1h00m");
  EXPECT_EQ(duration_text(90061), "1d01h");
}

TEST(Quantity, TimesSizesAndNumbers) {
  EXPECT_EQ(time_of_day(kNow, 0), "13:00:00");
  EXPECT_EQ(time_of_day(kNow, 3600), "14:00:00");
  EXPECT_EQ(date_and_time(kNow, -46800), "2026-11-21 00:00:00");
  EXPECT_EQ(time_of_day(0, 0), "-");
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(1 << 20), "1.0 MiB");
  EXPECT_EQ(size_text((1LL << 30) - 1), "1.0 GiB");
  EXPECT_EQ(number_text(13000), "13000");
  EXPECT_EQ(number_text(1e-7), "1e-07");
  EXPECT_EQ(number_text(-0.0), "0");
}

}  // namespace
}  // namespace pergpu::view
