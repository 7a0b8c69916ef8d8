// Straight calls, no abstraction: this is what a careful engineer would write by hand, and so the
// measure of what pergpu may cost.
#include "recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

extern char** environ;

namespace bench {
namespace {

struct Batch {
  std::vector<Row> rows;
  std::int64_t ticket = 0;
};

sqlite3* database = nullptr;
sqlite3_stmt* insert = nullptr;
int event_fd = -1;
std::mutex mutex;
std::condition_variable wake;
std::vector<Batch> waiting;
std::vector<std::int64_t> finished;
bool closing = false;
std::thread writer;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bare_loop: %s\n", what.c_str());
  std::abort();
}

void run(const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    die(std::string(sql) + ": " + sqlite3_errmsg(database));
  }
}

std::int64_t clock_ns(clockid_t id) {
  timespec t{};
  ::clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void insert_row(const Row& row) {
  sqlite3_bind_int64(insert, 1, row.job);
  sqlite3_bind_int64(insert, 2, static_cast<std::int64_t>(row.kind));
  sqlite3_bind_int64(insert, 3, clock_ns(CLOCK_REALTIME));
  sqlite3_bind_int64(insert, 4, clock_ns(CLOCK_BOOTTIME));
  sqlite3_bind_text(insert, 5, row.data.data(), static_cast<int>(row.data.size()), SQLITE_STATIC);
  if (sqlite3_step(insert) != SQLITE_DONE) die(sqlite3_errmsg(database));
  sqlite3_reset(insert);
}

void write_batches() {
  while (true) {
    std::vector<Batch> group;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [] { return !waiting.empty() || closing; });
      if (waiting.empty()) return;
      group.swap(waiting);
    }
    run("BEGIN");
    for (const Batch& batch : group) {
      for (const Row& row : batch.rows) insert_row(row);
    }
    run("COMMIT");
    {
      const std::lock_guard lock(mutex);
      for (const Batch& batch : group) finished.push_back(batch.ticket);
    }
    ::eventfd_write(event_fd, 1);
  }
}

void write_renamed(const std::string& path, const std::string& content) {
  const std::string temp = path + ".tmp";
  const int fd = ::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) die("create " + temp);
  if (::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    die("write " + temp);
  }
  ::close(fd);
  if (::rename(temp.c_str(), path.c_str()) < 0) die("rename " + temp);
}

}  // namespace

void open_database(const std::string& path) {
  if (sqlite3_open(path.c_str(), &database) != SQLITE_OK) die("open " + path);
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("CREATE TABLE event (seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, kind INTEGER NOT NULL, "
      "wall_ns INTEGER NOT NULL, boot_ns INTEGER NOT NULL, data TEXT NOT NULL)");
  const char* sql = "INSERT INTO event (job, kind, wall_ns, boot_ns, data) VALUES (?,?,?,?,?)";
  if (sqlite3_prepare_v2(database, sql, -1, &insert, nullptr) != SQLITE_OK) {
    die(sqlite3_errmsg(database));
  }
  event_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  writer = std::thread(write_batches);
}

void append(std::vector<Row> rows, std::int64_t ticket) {
  {
    const std::lock_guard lock(mutex);
    waiting.push_back({std::move(rows), ticket});
  }
  wake.notify_one();
}

int committed_fd() { return event_fd; }

std::vector<std::int64_t> committed() {
  eventfd_t count = 0;
  ::eventfd_read(event_fd, &count);
  const std::lock_guard lock(mutex);
  return std::exchange(finished, {});
}

void close_database() {
  {
    const std::lock_guard lock(mutex);
    closing = true;
  }
  wake.notify_one();
  writer.join();
  sqlite3_finalize(insert);
  sqlite3_close(database);
}

void prepare_folder(const std::string& folder, std::int64_t job, const std::string& argument) {
  const std::string run_folder = folder.substr(0, folder.rfind('/'));
  if (::mkdir(run_folder.c_str(), 0755) < 0) die("mkdir " + run_folder);
  if (::mkdir(folder.c_str(), 0755) < 0) die("mkdir " + folder);
  write_renamed(folder + "/config.json",
                fmt::format("{{\"arg\":\"{}\",\"index\":{}}}\n", argument, job));
}

void write_attempt(const std::string& folder, std::int64_t job, const std::vector<char*>& argv,
                   std::int64_t pid, int status, bool end) {
  std::string text = fmt::format("{{\"schema\":1,\"job\":{},\"attempt\":1,\"argv\":[", job);
  const char* comma = "";
  for (const char* argument : argv) {
    if (!argument) break;
    text += fmt::format("{}\"{}\"", comma, argument);
    comma = ",";
  }
  text += "],\"environment\":[";
  comma = "";
  for (char** variable = environ; *variable; ++variable) {
    const std::string entry = *variable;
    text += fmt::format("{}\"{}\"", comma, entry.substr(0, entry.find('=')));
    comma = ",";
  }
  text += fmt::format("],\"gpus\":[],\"at_ns\":{}", clock_ns(CLOCK_REALTIME));
  if (end) text += fmt::format(",\"pid\":{},\"status\":{},\"class\":\"ok\"", pid, status);
  write_renamed(folder + "/attempt.json", text + "}\n");
}

}  // namespace bench
