// Each function fills in its part of the facts.  Where a file system may hang (its server is gone)
// it is asked for nothing: what is mounted where is known from the kernel.
#include "cli/doctor/doctor_gather.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/care/reboot_start.h"
#include "cli/care/user_unit.h"
#include "cli/client/client.h"
#include "cli/share/segments.h"
#include "gpu/locality.h"
#include "gpu/probe_inventory.h"
#include "gpu/processes.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/mounts.h"
#include "os/loop.h"
#include "os/process/paths.h"
#include "os/test_hooks.h"
#include "run/environment.h"
#include "run/machine.h"
#include "version.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kSmallFile = 1u << 20;
constexpr milliseconds kDoctorAnswer{5'000};
constexpr milliseconds kAnswerOfGpus{20'000};  // the first look of a coordinator takes up to 15 s

/// For tests: where files of the machine lie instead.
std::string root() {
  const char* folder = os::test_hook::kRoot.value();
  return folder != nullptr ? folder : "";
}

/// Without the newline at its end; "" when it cannot be read.
std::string small_file(const std::string& path) {
  Result<std::string> text = os::read_file(path, kSmallFile);
  if (!text) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *std::move(text);
}

GpuLook look_once() {
  GpuLook seen;
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) {
    seen.why = loop.error().message;
    return seen;
  }
  os::RealClock clock;
  const std::unique_ptr<gpu::ProbeInventory> inventory = gpu::ProbeInventory::create(**loop, clock);
  inventory->look([&](const GpuLook& look) {
    seen = look;
    (*loop)->stop();
  });
  if (const Result<void> ran = (*loop)->run(); !ran) seen.why = ran.error().message;
  return seen;
}

LeaseFacts lease_facts(const GpuLook& look) {
  LeaseFacts facts;
  facts.is_chosen = !os::environment_variable("PERGPU_LOCKS").empty();
  const Result<std::optional<gpu::LeaseFolder>> folder = gpu::LeaseFolder::find();
  if (!folder) {
    facts.error = folder.error().message;
    return facts;
  }
  if (!*folder) return facts;
  facts.folder = (*folder)->path();
  facts.owner = (*folder)->owner();
  for (const GpuReading& gpu : look.gpus) {
    if (gpu.uuid.empty()) continue;
    const gpu::LeaseHolder holder = (*folder)->holder(gpu.uuid);
    if (holder.pid) facts.holders[gpu.uuid] = holder;
    if (std::string fault = (*folder)->fault(gpu.uuid); !fault.empty()) {
      facts.faults.push_back(std::move(fault));
    }
  }
  return facts;
}

void gather_gpus(DoctorFacts& facts) {
  facts.look = look_once();
  facts.kernel_module = gpu::kernel_module_version(root());
  facts.gpus_on_bus = gpu::gpus_on_bus(root());
  facts.has_device_files = os::exists(root() + "/dev/nvidiactl");
  if (Result<std::vector<gpu::LoggedXid>> xids = gpu::logged_xids(root())) {
    facts.xids = *std::move(xids);
  }
  facts.leases = lease_facts(facts.look);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible_devices = visible;
}

CoordinatorFacts coordinator_facts(const Place& place) {
  CoordinatorFacts facts;
  Client client(place, Client::Start::Never);
  const Result<Connection> greeted = client.connect();
  if (!greeted) {
    const bool is_absent = greeted.error().kind == ErrorKind::NotFound;
    facts.state = is_absent ? CoordinatorFacts::State::None : CoordinatorFacts::State::Silent;
    facts.why = greeted.error().message;
    return facts;
  }
  facts.state = CoordinatorFacts::State::Runs;
  facts.pid = client.peer().pid;
  facts.version = client.peer().version;
  if (const Result<json> status = client.call({{"op", "status"}}, {}, kDoctorAnswer)) {
    facts.store = status->value("store", std::string());
  }
  if (const Result<json> gpus = client.call({{"op", "gpus"}}, {}, kAnswerOfGpus)) {
    facts.gpus = gpus->value("gpus", json::array()).get<std::vector<GpuSnapshot>>();
  }
  return facts;
}

UnitFacts unit_facts() {
  UnitFacts facts{.path = user_unit_path()};
  const std::string text = facts.path.empty() ? std::string() : small_file(facts.path);
  facts.is_there = !text.empty();
  facts.program = program_of_unit(text);
  facts.program_is_there = os::is_regular(facts.program);
  facts.is_enabled = os::exists(os::parent_of(facts.path) + "/default.target.wants/pergpu.service");
  return facts;
}

FolderFacts folder_facts(const std::string& path, const std::vector<os::Mount>& mounts) {
  FolderFacts facts{.path = path};
  if (const os::Mount* mount = os::mount_at(mounts, path)) facts.type = mount->type;
  facts.on_network = os::is_network_type(facts.type);
  if (facts.on_network) return facts;
  if (const Result<os::Space> space = os::space_of(path)) facts.space = *space;
  facts.writable = ::access(path.c_str(), W_OK) == 0;
  return facts;
}

std::string current_folder() {
  std::array<char, PATH_MAX> here{};
  return ::getcwd(here.data(), here.size()) != nullptr ? here.data() : "";
}

void gather_home(DoctorFacts& facts) {
  const std::vector<os::Mount> mounts = os::mounts_in(small_file("/proc/self/mountinfo"));
  if (const std::string here = current_folder(); !here.empty()) {
    facts.here = folder_facts(here, mounts);
  }
  const Result<os::Home> home = os::find_home();
  if (!home) {
    facts.home.error = home.error().message;
    return;
  }
  facts.home.folder = folder_facts(home->path, mounts);
  facts.home.why_elsewhere = home->why_elsewhere;
  if (const Result<std::string> run_dir = os::run_folder(*home)) {
    const Place place{.home = home->path, .run_dir = *run_dir};
    facts.coordinator = coordinator_facts(place);
    facts.segments = find_segments(place);
  }
}

void gather_machine(DoctorFacts& facts) {
  facts.kernel = small_file("/proc/sys/kernel/osrelease");
  facts.missing_calls = os::missing_kernel_calls();
  facts.in_container = gpu::in_pid_namespace() || os::exists(root() + "/.dockerenv") ||
                       os::exists(root() + "/run/.containerenv");
  const Machine machine = read_machine();
  facts.cores = machine.core_count();
  facts.memory_bytes = machine.memory_bytes;
  facts.online_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const std::string nodes = small_file(root() + "/sys/devices/system/node/online");
  facts.numa_nodes = static_cast<int>(gpu::parse_cpu_list(nodes).size());
  for (const std::string_view name : thread_variables()) {
    const std::string value = os::environment_variable(std::string(name).c_str());
    if (!value.empty()) facts.threads.emplace_back(name, value);
  }
  if (const Result<os::Space> space = os::space_of("/dev/shm")) facts.shm = *space;
  facts.limits = os::own_limits();
  os::RealClock clock;
  facts.wall_ns = clock.now().wall_ns;
  facts.clock_synchronised = os::clock_is_synchronised();
  facts.clock_source =
      small_file(root() + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

/// After the coordinator was asked: it is what has to live on.
void gather_session(DoctorFacts& facts) {
  const pid_t pid =
      facts.coordinator.pid > 0 ? static_cast<pid_t>(facts.coordinator.pid) : ::getpid();
  facts.groups = os::foresee_cgroups(pid);
  facts.has_systemd = os::is_directory(root() + "/run/systemd/system");
  facts.has_user_manager = has_user_manager();
  const std::string cgroups =
      root().empty() ? "/proc/" + std::to_string(pid) + "/cgroup" : root() + "/proc/self/cgroup";
  facts.keeping = os::keeping_in(small_file(cgroups));
  facts.logout_ends = os::logout_ends_processes(os::read_logout_rules(root()), facts.user);
  facts.lingers = os::lingers(root(), facts.user);
  facts.unit = unit_facts();
  if (Result<std::vector<std::string>> variables = environment_after_reboot()) {
    facts.environment_after_reboot = *std::move(variables);
  }
}

void gather_users(DoctorFacts& facts) {
  const auto learn = [&](uid_t uid) { facts.users.try_emplace(uid, gpu::user_name(uid)); };
  learn(facts.uid);
  learn(facts.leases.owner);
  for (const auto& [uuid, holder] : facts.leases.holders) {
    if (holder.uid) learn(*holder.uid);
  }
  for (const GpuReading& gpu : facts.look.gpus) {
    for (const GpuProcess& process : gpu.processes) {
      if (process.uid) learn(*process.uid);
    }
  }
  // Who is in a directory service only has a name here in the environment.
  facts.user = facts.users.at(facts.uid);
  if (facts.user.starts_with("uid ")) facts.user = os::environment_variable("LOGNAME");
}

}  // namespace

DoctorFacts gather_facts() {
  DoctorFacts facts;
  facts.version = PERGPU_VERSION;
  facts.uid = ::getuid();
  if (const Result<std::string> program = os::own_executable()) facts.program = *program;
  const Result<std::string> keeper = os::find_program("pergpu-keeper");
  if (keeper) {
    facts.keeper = *keeper;
  } else {
    facts.keeper_error = keeper.error().message;
  }
  gather_gpus(facts);
  gather_users(facts);
  gather_home(facts);
  gather_machine(facts);
  gather_session(facts);
  if (keeper) facts.job = try_job(facts.program);
  facts.python = try_python(facts.program);
  return facts;
}

}  // namespace pergpu::cli
