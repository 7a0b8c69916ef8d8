// What the tests of the store share: a folder of their own, and "append and wait for it".
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"

namespace pergpu::testing_store {

class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "pergpu-store-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Names and contents, except the index of a log.
inline std::map<std::string, std::string> files_of(const Folder& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".db-shm") continue;
    files[entry.path().filename().string()] = bytes_of(entry.path().string());
  }
  return files;
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::unique_ptr<Store> must_open(const std::string& path) {
  Result<std::unique_ptr<Store>> store = open_sqlite_store(path);
  if (!store) {
    ADD_FAILURE() << store.error().message;
    std::abort();
  }
  return *std::move(store);
}

/// Waits until drain() has something and drains; false after 30 s without anything.
inline bool drain_next(Store& store) {
  pollfd readable{.fd = store.completion_fd(), .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, 30'000) != 1) return false;
  store.drain();
  return true;
}

/// Appends and waits for the verdict.
inline Result<void> commit(Store& store, Batch batch) {
  bool answered = false;
  Result<void> verdict;
  store.append(std::move(batch), [&](Result<void> result) {
    verdict = std::move(result);
    answered = true;
  });
  while (!answered) {
    if (!drain_next(store)) return Error{ErrorKind::Unavailable, 0, "no completion in 30 s"};
  }
  return verdict;
}

inline Batch one(Row row) {
  Batch batch;
  batch.push_back(std::move(row));
  return batch;
}

inline std::vector<Row> rows_of(Store& store) {
  std::vector<Row> rows;
  const Result<void> loaded = store.load([&](Row row) {
    rows.push_back(std::move(row));
    return Result<void>();
  });
  EXPECT_TRUE(loaded) << loaded.error().message;
  return rows;
}

/// What load() left out of these sweeps.
inline std::vector<Row> fetched(Store& store, const std::vector<SweepId>& archived) {
  std::vector<Row> rows;
  std::optional<Result<void>> verdict;
  store.fetch(
      archived,
      [&](Row row) {
        rows.push_back(std::move(row));
        return Result<void>();
      },
      [&](Result<void> result) { verdict = std::move(result); });
  while (!verdict && drain_next(store)) {
  }
  EXPECT_TRUE(verdict && *verdict) << (verdict ? verdict->error().message : "no answer in 30 s");
  return rows;
}

/// What load() gives, and then what it left out.
template <typename T>
std::vector<T> only(const std::vector<Row>& rows);
inline std::vector<Row> all_rows_of(Store& store) {
  std::vector<Row> rows = rows_of(store);
  std::vector<SweepId> archived;
  for (const row::Archived& a : only<row::Archived>(rows)) archived.push_back(a.sweep);
  if (archived.empty()) return rows;
  for (Row& row : fetched(store, archived)) rows.push_back(std::move(row));
  return rows;
}

template <typename T>
std::vector<T> only(const std::vector<Row>& rows) {
  std::vector<T> found;
  for (const Row& row : rows) {
    if (const T* r = std::get_if<T>(&row)) found.push_back(*r);
  }
  return found;
}

/// A sweep with one job, number 1.
inline Batch small_sweep() {
  Batch batch;
  batch.push_back(row::Sweep{.id = {1}, .root = "/out", .name = "s", .spec = "{}", .submit = "{}"});
  batch.push_back(row::NewJob{.id = {1}, .sweep = {1}, .step_name = "train"});
  return batch;
}

inline row::Event held(std::string reason) {
  return {.job = {1}, .event = event::Held{std::move(reason)}, .at = {5, 6}};
}

inline std::vector<std::string> reasons(Store& store) {
  std::vector<std::string> texts;
  for (const row::Event& e : only<row::Event>(rows_of(store))) {
    if (const auto* h = std::get_if<event::Held>(&*e.event)) texts.push_back(h->reason);
  }
  return texts;
}

}  // namespace pergpu::testing_store
