// What `doctor` has seen of the machine: plain values, so that what follows from them is a pure
// function (cli/doctor/doctor_checks.h) and a test can make up any machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/snapshot.h"
#include "cli/doctor/doctor_trials.h"
#include "gpu/driver_files.h"
#include "gpu/inventory.h"
#include "gpu/lease.h"
#include "os/fs/space.h"
#include "os/kernel.h"
#include "os/process/cgroup_site.h"
#include "os/process/login.h"
#include "view/commands/segments.h"

namespace pergpu::cli {

/// A folder that pergpu or its jobs write to.
struct FolderFacts {
  std::string path = {};
  std::string type = {};    // of its file system: "ext4"; "": not known
  bool on_network = false;  // its space is not asked for then: that can block
  std::optional<os::Space> space = std::nullopt;
  bool writable = true;
};

struct HomeFacts {
  FolderFacts folder = {};
  std::string error = {};  // not empty: there is none, and why
  std::string why_elsewhere = {};
};

struct LeaseFacts {
  std::string folder = {};  // "": not there yet
  std::string error = {};   // not empty: it cannot be used, and why
  bool is_chosen = false;   // by PERGPU_LOCKS
  uid_t owner = 0;
  std::map<std::string, gpu::LeaseHolder> holders = {};  // by UUID; only those that are held
  std::vector<std::string> faults = {};                  // files that are not in order
};

struct CoordinatorFacts {
  enum class State : std::uint8_t { None, Runs, Silent };
  State state = State::None;
  std::string why = {};  // Silent
  std::int64_t pid = 0;
  std::string version = {};
  std::string store = {};  // not empty: what the store cannot do
  std::vector<GpuSnapshot> gpus = {};
};

/// The user unit of `coordinator enable`.
struct UnitFacts {
  std::string path = {};
  bool is_there = false;
  bool is_enabled = false;
  std::string program = {};  // what it starts
  bool program_is_there = false;
};

struct DoctorFacts {
  // Us.
  std::string version = {};
  uid_t uid = 0;
  std::map<uid_t, std::string> users = {};  // names of all uids below
  std::string program = "pergpu";           // the path of this executable
  std::string keeper = {};                  // the path of pergpu-keeper; "": not found
  std::string keeper_error = {};
  std::optional<JobTrial> job = std::nullopt;  // nullopt: without a keeper none is tried
  PythonTrial python = {};
  CoordinatorFacts coordinator = {};
  UnitFacts unit = {};
  std::vector<std::string> environment_after_reboot = {};  // cli/care/reboot_start.h

  // GPUs.
  GpuLook look = {};
  std::string kernel_module = {};  // version; "": none is loaded
  int gpus_on_bus = 0;
  bool has_device_files = false;                                   // /dev/nvidiactl
  std::optional<std::vector<gpu::LoggedXid>> xids = std::nullopt;  // nullopt: not readable
  LeaseFacts leases = {};
  std::optional<std::string> visible_devices = std::nullopt;  // CUDA_VISIBLE_DEVICES

  // The machine.
  std::string kernel = {};  // "6.1.0-13-amd64"
  std::vector<os::KernelCall> missing_calls = {};
  bool in_container = false;
  bool has_systemd = false;
  bool has_user_manager = false;
  int cores = 1;         // that we may use
  int online_cores = 1;  // that the machine has
  std::uint64_t memory_bytes = 0;
  int numa_nodes = 1;
  std::vector<std::pair<std::string, std::string>> threads = {};  // variables that are set
  std::optional<os::Space> shm = std::nullopt;                    // nullopt: no /dev/shm
  std::vector<view::Segment> segments = {};                       // that jobs share
  os::ProcessLimits limits = {};
  os::CgroupSite groups = {};
  std::string user = {};
  os::Keeping keeping = os::Keeping::Nobody;  // of the coordinator, else of this shell
  std::optional<bool> logout_ends = std::nullopt;
  bool lingers = false;
  HomeFacts home = {};
  FolderFacts here = {};
  std::int64_t wall_ns = 0;
  std::optional<bool> clock_synchronised = std::nullopt;
  std::string clock_source = {};
};

}  // namespace pergpu::cli
