// The event files of a job on disk: the newest is found, read in bounds, and is its metrics where
// it wrote no metrics file.
#include "cli/job_files/event_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "../view/event_records.h"
#include "cli/job_files/result_files.h"
#include "program.h"

namespace pergpu::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWritten =
    PERGPU_TEST_DATA "/tensorboard/events.out.tfevents.1795266000.node1";

/// A copy of the file below `folder`, changed `age_s` ago.
std::string put(const std::string& folder, const std::string& name, int age_s) {
  fs::create_directories(folder);
  const std::string path = folder + "/" + name;
  fs::copy_file(kWritten, path);
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(age_s));
  return path;
}

TEST(NewestEventFile, IsFoundInFoldersAndNotThroughLinks) {
  const Scratch scratch;
  const std::string out = scratch.path() + "/out";
  EXPECT_EQ(newest_event_file(out).path, "");
  EXPECT_EQ(newest_event_file("").path, "");
  put(out, "events.out.tfevents.1", 60);
  const std::string newer = put(out + "/lightning_logs/version_0", "events.out.tfevents.2", 30);
  std::ofstream(out + "/model.pt") << "newer, but something else";
  fs::create_directory_symlink(out, out + "/again");
  put(scratch.path() + "/elsewhere", "events.out.tfevents.3", 0);
  fs::create_symlink(scratch.path() + "/elsewhere/events.out.tfevents.3",
                     out + "/events.out.tfevents.link");
  const EventFile found = newest_event_file(out);
  EXPECT_EQ(found.path, newer);
  EXPECT_GT(found.written_at, 0);
}

TEST(NewestScalars, LargeRecordsArePassedOver) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/events.out.tfevents.1";
  const view::Metrics of_file = newest_scalars(kWritten).exact_metrics();
  ASSERT_EQ(of_file.size(), 7u);
  // A record of 3 MiB whose head is right: b"\0\0\x30\0\0\0\0\0" and its masked CRC-32C.
  std::ifstream written(kWritten, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(written)), {});
  const std::string length("\0\0\x30\0\0\0\0\0", 8);
  std::ofstream(path, std::ios::binary)
      << view::with_checksum(length) << std::string((3 << 20) + 4, 'x') << bytes;
  EXPECT_EQ(newest_scalars(path).exact_metrics(), of_file);
}

TEST(NewestScalars, WhatIsCutOffIsLeftOut) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/events.out.tfevents.1";
  const std::string first = view::record(view::event(1, {view::simple("loss", 3)}));
  const std::string whole = first + view::record(view::event(2, {view::simple("loss", 2)}));
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    const view::Metrics expected = size < first.size() ? view::Metrics{}
                                   : size < whole.size()
                                       ? view::Metrics{{"step", "1"}, {"loss", "3.0"}}
                                       : view::Metrics{{"step", "2"}, {"loss", "2.0"}};
    ASSERT_EQ(newest_scalars(path).exact_metrics(), expected) << size;
  }
}

TEST(NewestScalars, ADamagedPayloadIsPassedOverAndADamagedLengthEndsIt) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/events.out.tfevents.1";
  const std::string first = view::record(view::event(1, {view::simple("a", 1)}));
  std::string bytes = first + view::record(view::event(2, {view::simple("b", 2)}));
  bytes[first.size() - 6] = '~';
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(newest_scalars(path).exact_metrics(), (view::Metrics{{"step", "2"}, {"b", "2.0"}}));
  bytes[0] = '~';
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_TRUE(newest_scalars(path).metrics().empty());
  const std::string length = view::with_checksum(view::little_endian(~std::uint64_t{0}, 8));
  std::ofstream(path, std::ios::binary) << length << first;
  EXPECT_TRUE(newest_scalars(path).metrics().empty());
}

TEST(NewestScalars, OfWhatIsNoSuchFileThereAreNone) {
  const Scratch scratch;
  EXPECT_TRUE(newest_scalars(scratch.path() + "/missing").metrics().empty());
  EXPECT_TRUE(newest_scalars(scratch.path()).metrics().empty());
  const std::string fifo = scratch.path() + "/tfevents";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(newest_scalars(fifo).metrics().empty());  // and does not block
}

TEST(ReadMetrics, EventFilesCountWhereThereIsNoMetricsFile) {
  const Scratch scratch;
  JobSnapshot job{.id = 7, .state = "done", .attempt = 1};
  job.out = scratch.path() + "/out";
  job.metrics = job.out + "/metrics.jsonl";
  const std::string path = put(job.out, "events.out.tfevents.1", 60);
  NewestMetrics newest = read_exact_metrics(job);
  ASSERT_EQ(newest.metrics.size(), 7u);
  EXPECT_EQ(newest.metrics[1], (std::pair<std::string, std::string>("loss", "0.33333334")));
  EXPECT_EQ(newest.path, path);
  EXPECT_GT(newest.written_at, 0);
  EXPECT_EQ(read_metrics({job})[7][1].second, "0.33333");

  std::ofstream(job.metrics) << "{\"loss\": 0.25}\n";
  newest = read_exact_metrics(job);
  EXPECT_EQ(newest.metrics, (view::Metrics{{"loss", "0.25"}}));
  EXPECT_EQ(newest.path, job.metrics);
  EXPECT_EQ(read_metrics({job})[7], (view::Metrics{{"loss", "0.25"}}));

  job.state = "queued";
  EXPECT_TRUE(read_exact_metrics(job).metrics.empty());
}

}  // namespace
}  // namespace pergpu::cli
