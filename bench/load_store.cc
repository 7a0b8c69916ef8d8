// load_store make|fold|load FOLDER [JOBS]: what a store of many finished jobs costs at a start.
//
//   make  writes FOLDER/pergpu.db: sweeps of 100,000 runs, one job each, with the three events of a
//         job that ran once and was done
//   fold  folds all events, 500 at a time as the store thread does
//   load  opens and loads it as a coordinator does, looks for jobs that have not ended, and then
//         fetches one of the archived sweeps
//
// One line of JSON each: seconds by the wall and of CPU, the longest slice, the resident memory.
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "os/clock.h"
#include "spec/sweep/wire.h"
#include "state/world.h"
#include "store/compaction.h"
#include "store/schema.h"
#include "store/store.h"

using namespace pergpu;

namespace {

constexpr std::int64_t kRunsASweep = 100'000;
constexpr std::int64_t kNever = 1'000'000'000'000;

template <typename T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}
void must(const Result<void>& result) {
  if (result) return;
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

class Watch {
 public:
  double wall() const { return static_cast<double>(os::boot_now_ns() - begin_) / 1e9; }
  static double cpu() {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  }

 private:
  std::int64_t begin_ = os::boot_now_ns();
};

std::int64_t resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtoll(line.c_str() + 6, nullptr, 10) / 1024;
  }
  return 0;
}

std::int64_t file_mib(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size >> 20 : 0;
}

void wait_for(Store& store) {
  pollfd readable{.fd = store.completion_fd(), .events = POLLIN, .revents = 0};
  ::poll(&readable, 1, -1);
  store.drain();
}

void commit(Store& store, Batch batch) {
  bool done = false;
  store.append(std::move(batch), [&](const Result<void>& stored) {
    must(stored);
    done = true;
  });
  while (!done) wait_for(store);
}

void make(const std::string& path, std::int64_t jobs) {
  const std::unique_ptr<Store> store =
      must(open_sqlite_store(path, {.begin = kNever, .keep = kNever, .always = kNever}));
  must(store->load([](const Row&) { return Result<void>(); }));
  SweepSpec spec{.name = "many", .folder = "/data", .file = "/data/many.toml"};
  spec.steps.push_back({.name = "train"});
  spec.steps.back().command = {"python3", "train.py", "--config", "{config}", "--out", "{out}"};
  const std::string text = to_wire(spec);
  Batch batch;
  for (std::int64_t i = 0; i < jobs; ++i) {
    const SweepId sweep{i / kRunsASweep + 1};
    const auto run = static_cast<std::int32_t>(i % kRunsASweep);
    const JobId job{i + 1};
    const Instant at{.wall_ns = 1'700'000'000'000'000'000 + i, .boot_ns = 1'000'000'000 + i};
    if (run == 0) {
      batch.push_back(row::Sweep{.id = sweep,
                                 .root = "/data/runs",
                                 .name = fmt::format("many-{}", sweep.value),
                                 .spec = text,
                                 .submit = to_text({}),
                                 .at = at});
    }
    const std::string json = fmt::format(R"({{"lr":0.001,"method":"ddpm","seed":{}}})", run);
    batch.push_back(row::Run{.sweep = sweep,
                             .index = run,
                             .folder = fmt::format("{:06}-seed={}", run, run),
                             .json = json});
    batch.push_back(row::NewJob{
        .id = job, .sweep = sweep, .run = run, .step = 0, .step_name = "train", .at = at});
    const Placement gpu{.lane = {.pool = LaneId::Pool::Gpu, .slot = 3},
                        .gpus = {"GPU-8d1c2a70-5c6e-4c1b-9d6f-0a1b2c3d4e5f"},
                        .cpus = 4,
                        .cpu_list = {0, 1, 2, 3}};
    batch.push_back(
        row::Event{job, event::Starting{.attempt = 1, .placement = gpu, .keeper = {3}}, at});
    batch.push_back(row::Event{job, event::Started{.pid = 4'711, .start_ticks = 1'234'567}, at});
    const Outcome ok{.cls = OutcomeClass::Ok,
                     .exit_code = 0,
                     .peak_memory_bytes = 3'000'000'000,
                     .cpu_ns = 2'000'000'000};
    batch.push_back(row::Event{job, event::Ended{.outcome = ok}, at});
    if (run + 1 == kRunsASweep || i + 1 == jobs) {
      batch.push_back(row::Archived{.sweep = sweep,
                                    .key = "0123456789abcdef0123456789abcdef",
                                    .first_job = {job.value - run},
                                    .last_job = job,
                                    .jobs = run + 1});
    }
    if (batch.size() > 50'000 || i + 1 == jobs) {
      commit(*store, std::exchange(batch, {}));
    }
  }
}

void fold(const std::string& path) {
  store::Database database = must(store::open_store_file(path));
  must(store::accept(database));
  store::Compaction compaction = must(store::Compaction::prepare(database));
  const std::int64_t events = must(compaction.unfolded());
  const Watch watch;
  const double cpu_before = Watch::cpu();
  double longest = 0;
  for (std::int64_t left = events; left > 0;) {
    const Watch slice;
    left -= must(compaction.fold(database, 500));
    longest = std::max(longest, slice.wall());
    if (left / 500 % 20 == 0) must(database.exec("PRAGMA wal_checkpoint(PASSIVE)"));
  }
  fmt::print(R"({{"events":{},"fold_s":{:.3f},"fold_cpu_s":{:.3f},"longest_slice_ms":{:.1f}}})"
             "\n",
             events, watch.wall(), Watch::cpu() - cpu_before, longest * 1e3);
}

void load(const std::string& path) {
  const Watch whole;
  const std::unique_ptr<Store> store = must(open_sqlite_store(path));
  const double open_s = whole.wall();
  const double open_cpu_s = Watch::cpu();
  World world;
  must(store->load([&](const Row& row) { return world.absorb(row); }));
  must(world.check_whole());
  const double load_s = whole.wall() - open_s;
  const double load_cpu_s = Watch::cpu() - open_cpu_s;
  const Watch looking;
  std::int64_t open = 0;
  world.open_jobs().for_each([&](JobId) { ++open; });
  const double look_ms = looking.wall() * 1e3;
  const std::int64_t resident = resident_mib();
  const Watch fetching;
  World part;
  const std::vector<SweepId> one{world.archived().begin()->first};
  bool is_there = false;
  store->fetch(
      one, [&](const Row& row) { return part.absorb(row); },
      [&](const Result<void>& read) {
        must(read);
        is_there = true;
      });
  while (!is_there) wait_for(*store);
  const Watch adopting;
  must(world.adopt(one, std::move(part)));
  fmt::print(R"({{"jobs":{},"file_mib":{},"open_s":{:.3f},"open_cpu_s":{:.3f},"load_s":{:.3f},)"
             R"("load_cpu_s":{:.3f},"resident_mib":{},"look_ms":{:.2f},"not_ended":{},)"
             R"("fetched_jobs":{},"fetch_s":{:.3f},"adopt_ms":{:.2f},"resident_then_mib":{}}})"
             "\n",
             world.next_job_id().value - 1, file_mib(path), open_s, open_cpu_s, load_s, load_cpu_s,
             resident, look_ms, open, world.jobs().size(), fetching.wall(), adopting.wall() * 1e3,
             resident_mib());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[1] : "";
  const std::string path = argc > 2 ? std::string(argv[2]) + "/pergpu.db" : "";
  if (what == "make" && argc > 3) {
    make(path, std::strtoll(argv[3], nullptr, 10));
  } else if (what == "fold") {
    fold(path);
  } else if (what == "load") {
    load(path);
  } else {
    fmt::print(stderr, "load_store make FOLDER JOBS | fold FOLDER | load FOLDER\n");
    return 2;
  }
  return 0;
}
