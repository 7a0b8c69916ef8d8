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
#include <string_view>
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
sqlite3_stmt* insert_run = nullptr;
sqlite3_stmt* insert_job = nullptr;
sqlite3_stmt* insert_event = nullptr;
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

sqlite3_stmt* prepared(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK) {
    die(std::string(sql) + ": " + sqlite3_errmsg(database));
  }
  return statement;
}

std::int64_t clock_ns(clockid_t id) {
  timespec t{};
  ::clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// Binds the values in order and executes; int64 and text only.
class Binder {
 public:
  explicit Binder(sqlite3_stmt* statement) : statement_(statement) {}
  Binder& operator<<(std::int64_t value) {
    sqlite3_bind_int64(statement_, ++at_, value);
    return *this;
  }
  Binder& operator<<(std::string_view text) {
    sqlite3_bind_text(statement_, ++at_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
    return *this;
  }
  ~Binder() {
    if (sqlite3_step(statement_) != SQLITE_DONE) die(sqlite3_errmsg(database));
    sqlite3_reset(statement_);
  }

 private:
  sqlite3_stmt* statement_;
  int at_ = 0;
};

void insert_row(const Row& row) {
  const std::int64_t wall = clock_ns(CLOCK_REALTIME);
  const std::int64_t boot = clock_ns(CLOCK_BOOTTIME);
  if (row.kind == Kind::Submitted) {
    const std::string number = std::to_string(row.job);
    Binder(insert_run) << std::int64_t{1} << row.job << number + "-1=" + row.data
                       << "{\"1\":\"" + row.data + "\"}"
                       << "[\"" + row.data + "\"]";
    Binder(insert_job) << row.job << std::int64_t{1} << row.job << std::int64_t{0} << "main"
                       << "0123456789abcdef" << std::int64_t{0} << wall << boot;
    return;
  }
  constexpr const char* kNames[] = {"submitted", "starting", "started", "ended"};
  Binder(insert_event) << row.job << wall << boot << kNames[static_cast<std::size_t>(row.kind)]
                       << row.data;
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
  run("PRAGMA locking_mode = EXCLUSIVE");
  run("PRAGMA journal_mode = WAL");
  run("PRAGMA synchronous = FULL");
  run("PRAGMA foreign_keys = ON");
  run("PRAGMA wal_autocheckpoint = 0");  // written back at the end, as pergpu does when it is idle
  run(R"(CREATE TABLE runs (sweep INTEGER NOT NULL, number INTEGER NOT NULL, folder TEXT NOT NULL,
      json TEXT NOT NULL, texts TEXT NOT NULL, PRIMARY KEY (sweep, number)) WITHOUT ROWID)");
  run(R"(CREATE TABLE jobs (id INTEGER PRIMARY KEY, sweep INTEGER NOT NULL, run INTEGER NOT NULL,
      step INTEGER NOT NULL, step_name TEXT NOT NULL, identity BLOB NOT NULL,
      replaces INTEGER NOT NULL, at_wall INTEGER NOT NULL, at_boot INTEGER NOT NULL))");
  run(R"(CREATE TABLE events (seq INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs (id),
      at_wall INTEGER NOT NULL, at_boot INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL))");
  insert_run = prepared("INSERT INTO runs VALUES (?,?,?,?,?)");
  insert_job = prepared("INSERT INTO jobs VALUES (?,?,?,?,?,?,?,?,?)");
  insert_event =
      prepared("INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (?,?,?,?,?)");
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
  for (sqlite3_stmt* one : {insert_run, insert_job, insert_event}) sqlite3_finalize(one);
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
  std::string text = fmt::format(
      "{{\n  \"schema\": 1,\n  \"job\": {},\n  \"attempt\": 1,\n  \"sweep\": \"bench\",\n"
      "  \"step\": \"main\",\n  \"state\": \"{}\",\n  \"argv\": [",
      job, end ? "done" : "running");
  const char* comma = "\n    ";
  for (const char* argument : argv) {
    if (!argument) break;
    text += fmt::format("{}\"{}\"", comma, argument);
    comma = ",\n    ";
  }
  text += fmt::format("\n  ],\n  \"lane\": \"cpu\",\n  \"gpus\": [],\n  \"at_ns\": {},\n",
                      clock_ns(CLOCK_REALTIME));
  if (end) text += fmt::format("  \"pid\": {},\n  \"exit\": {},\n", pid, status);
  text += "  \"environment\": {\n    \"inherited\": [";
  comma = "\n      ";
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view entry = *variable;
    text += fmt::format("{}\"{}\"", comma, entry.substr(0, entry.find('=')));
    comma = ",\n      ";
  }
  write_renamed(folder + "/attempt.json", text + "\n    ]\n  }\n}\n");
}

}  // namespace bench
