// The store of a task on a node: it begins with what was handed over and what earlier lives of the
// task have reported, and what is appended goes out as files of records (store/records.h).  There
// is no database: the folder may lie on a file system that many machines share.
//
// Only events of jobs and what they used go out.  Whatever else is appended is known to this
// process alone.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.h"
#include "store/records.h"
#include "store/store.h"

namespace pergpu {

class RecordStore final : public Store {
 public:
  struct Parts {
    std::string folder = {};  // of the handover
    std::int32_t task = 0;
    std::int32_t life = 1;  // no file of it may be there
    mode_t mode = 0600;     // of its files
    Batch rows = {};        // what load() begins with: of the sweep, its runs and jobs
    std::vector<store::Record> told = {};  // by earlier lives, in order
  };
  static Result<std::unique_ptr<RecordStore>> open(Parts parts);
  ~RecordStore() override;

  using Store::append;
  void append(std::shared_ptr<const Batch> batch, std::function<void(Result<void>)> done) override;
  int completion_fd() const override { return completion_fd_.get(); }
  void drain() override;
  using Store::load;
  Result<void> load(const RowVisitor& visit, const std::function<Result<void>()>& check) override;
  /// Nothing is ever archived here.
  void fetch(std::vector<SweepId> archived, RowVisitor visit,
             std::function<void(Result<void>)> done) override;
  /// Refused.
  void backup(std::string file, std::function<void(Result<std::int64_t>)> done) override;

  /// From now on nothing goes out: what is appended is forgotten, as if it were stored.  What
  /// another coordinator decides of these jobs must not be contradicted.
  void seal();
  /// Everything that was appended goes out as one file, in the place of the parts.  `closed`: this
  /// task will report nothing more, in no later life either.  Blocks.  REQUIRES: nothing is
  /// appended after it.
  Result<void> finish(bool closed);

 private:
  struct Pending {
    std::shared_ptr<const Batch> batch;  // null: sealed before it was written
    std::function<void(Result<void>)> done;
  };
  struct Completion {
    std::function<void(Result<void>)> done;
    Result<void> result;
  };
  RecordStore(Parts parts, os::UniqueFd completion_fd);
  void answer(std::function<void(Result<void>)> done, Result<void> result);
  void wake_reader();
  void serve();
  void write(std::vector<Pending> group);
  std::optional<store::Record> note(const Row& row);
  std::string name_of(std::int32_t part) const;

  Parts parts_;
  os::UniqueFd completion_fd_;
  // The thread's, from its start to its end:
  std::map<JobId, std::int32_t> attempts_;
  store::RecordFile whole_;
  std::int32_t parts_written_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Pending> queue_;
  std::vector<Completion> completions_;
  std::optional<Error> failure_;
  bool urgent_ = false;
  bool sealed_ = false;
  bool leaving_ = false;
  std::jthread thread_;  // last: joined before what it uses goes away
};

}  // namespace pergpu
