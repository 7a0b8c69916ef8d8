// What bare_loop keeps of its jobs when asked to do as much as pergpu: a folder with config.json,
// log.txt and attempt.json for each, and rows in SQLite (WAL, synchronous=FULL) written by a thread
// of its own that commits in groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

enum class Kind : std::int64_t { Submitted, Starting, Started, Exited };

/// One row of the journal.
struct Row {
  std::int64_t job = 0;
  Kind kind = Kind::Submitted;
  std::string data;
};

/// Opens (creates) the database and starts its thread.  Aborts with a message when it cannot.
void open_database(const std::string& path);
/// One transaction, perhaps together with others; `ticket` comes back from committed() then.
void append(std::vector<Row> rows, std::int64_t ticket);
/// Readable (eventfd) when committed() has something.
int committed_fd();
std::vector<std::int64_t> committed();
void close_database();

/// Makes `folder` and config.json in it.
void prepare_folder(const std::string& folder, std::int64_t job, const std::string& argument);
/// Writes attempt.json (temp file, rename); `end`: with the outcome.
void write_attempt(const std::string& folder, std::int64_t job, const std::vector<char*>& argv,
                   std::int64_t pid, int status, bool end);

}  // namespace bench
