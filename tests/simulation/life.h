// One life of the coordinator: the real deciding code over the simulated machine, disk and clock.
// Another one over the same three is a restart.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "os/loop.h"
#include "run/fake.h"
#include "simulation/disk.h"
#include "simulation/history.h"
#include "simulation/machine.h"

namespace pergpu::simulation {

/// What outlives every coordinator.
struct Surroundings {
  Clock& clock;
  Agenda& agenda;
  Dice& dice;
  Faults& faults;
  Machine& machine;
  Disk& disk;
  History& history;
  os::Loop& loop;  // for lease watches; never runs
  std::string boot_id;
};

/// The engine of one life: passes what is asked to the machine, and what the machine says back.
class MachineEngine final : public Engine {
 public:
  MachineEngine(Surroundings& around, const World& world,
                std::function<void(const EngineEvent&)> on_event);
  ~MachineEngine() override;
  KeeperId assign(LaneId lane) override;
  void prepare(LaneId lane, const FolderPlan& folder) override;
  void start(LaneId lane, AttemptPlan plan) override;
  void stop(AttemptId id, StopHow how) override;
  void signal(AttemptId id, int number) override;
  void write_stacks(AttemptId id, const std::string& path,
                    std::function<void(bool written)> done) override;
  void acknowledge(AttemptId id, std::string record_path, std::string final_record) override;
  void adopt(std::vector<ExpectedAttempt> expected) override;
  std::vector<std::int32_t> keeper_pids() const override { return {}; }

 private:
  void check_limits(AttemptId id) const;

  Surroundings& around_;
  const World& world_;
  std::function<void(const EngineEvent&)> on_event_;
  std::int64_t last_keeper_ = 0;
};

class Probe final : public GpuInventory {
 public:
  explicit Probe(Surroundings& around) : around_(around) {}
  void look(std::function<void(const GpuLook&)> done) override;
  void stay(bool wanted) override { around_.machine.stay(wanted); }

 private:
  Surroundings& around_;
  std::int64_t answered_until_ = 0;  // looks are answered in order
};

class Life {
 public:
  /// `before`: the world of the life before, if all of it was durable; null otherwise.
  Life(Surroundings& around, std::shared_ptr<const World> before);

  /// The end of a turn of the loop, and what must hold then.
  void turn();
  Coordinator& core() { return *core_; }
  bool is_durable() const { return journal_.idle() && !store.waits(); }

  const std::shared_ptr<World> world;
  DiskStore store;

 private:
  void check() const;
  void check_intent(const row::Event& row) const;

  Journal journal_;
  Surroundings& around_;
  Timers timers_;
  Probe probe_;
  MachineEngine engine_;
  FakeEngine fake_;
  GpuLanes gpus_;
  std::unique_ptr<Coordinator> core_;
};

}  // namespace pergpu::simulation
