// What is on the disk, over all lives of the coordinator, and a store that reaches it late, in
// groups, or not at all.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulation/agenda.h"
#include "simulation/archive_book.h"
#include "simulation/faults.h"
#include "state/world.h"
#include "store/store.h"

namespace pergpu::simulation {

/// Rows as the store keeps them: the newest of a table's row, every event.
class Disk {
 public:
  using Seen = std::function<void(const Row& row, int allowed_retries)>;
  explicit Disk(Seen seen) : seen_(std::move(seen)) {}

  void commit(const Row& row, int allowed_retries);
  /// What a start reads.
  Result<void> replay(const RowVisitor& visit) const;
  /// What it left out of these.
  Result<void> replay(const std::set<SweepId>& archived, const RowVisitor& visit) const;
  const ArchiveBook& archive() const { return archive_; }
  bool has_environment(SweepId sweep) const { return environments_.contains(sweep); }

 private:
  Result<void> replay(const std::function<bool(SweepId)>& wanted, const RowVisitor& visit) const;

  Seen seen_;
  std::map<std::string, row::Meta> meta_;
  std::map<std::string, row::Limit> limits_;
  std::map<SweepId, row::Sweep> sweeps_;
  std::vector<row::Run> runs_;
  std::vector<row::NewJob> jobs_;
  std::vector<row::Event> events_;
  ArchiveBook archive_;
  std::set<SweepId> environments_;
};

class DiskStore final : public Store {
 public:
  using OnEvent = std::function<void(const row::Event&)>;
  /// `on_event`: the coordinator has decided it, nothing of it is stored.
  DiskStore(Disk& disk, const World& world, Agenda& agenda, Dice& dice, Faults& faults,
            OnEvent on_event)
      : disk_(disk),
        world_(world),
        agenda_(agenda),
        dice_(dice),
        faults_(faults),
        on_event_(std::move(on_event)) {}

  using Store::append;
  void append(std::shared_ptr<const Batch> batch, std::function<void(Result<void>)> done) override;
  int completion_fd() const override { return -1; }
  void drain() override;
  Result<void> load(const RowVisitor& visit, const std::function<Result<void>()>& check) override;
  void fetch(std::vector<SweepId> archived, RowVisitor visit,
             std::function<void(Result<void>)> done) override;
  void backup(std::string file, std::function<void(Result<std::int64_t>)> done) override;

  /// kill -9: of what waits, the first so many transactions were committed, and nobody was told.
  void kill();
  bool is_full = false;
  bool waits() const { return !queue_.empty(); }

 private:
  enum class Fate : std::uint8_t { Waits, Stored, Failed };
  struct Entry {
    Batch rows;
    std::vector<int> allowed_retries;
    std::function<void(Result<void>)> done;
    Fate fate = Fate::Waits;
  };
  void commit(Entry& entry);
  void write();

  Disk& disk_;
  const World& world_;
  Agenda& agenda_;
  Dice& dice_;
  Faults& faults_;
  OnEvent on_event_;
  std::deque<Entry> queue_;
  bool writes_ = false;
};

}  // namespace pergpu::simulation
