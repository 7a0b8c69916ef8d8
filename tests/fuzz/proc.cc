// Texts of /proc, /etc/passwd, the kernel's log and logind.conf.  First byte: which of them.
#include "os/process/proc.h"

#include "fuzz.h"
#include "gpu/driver_files.h"
#include "gpu/drm_clients.h"
#include "gpu/processes.h"
#include "os/fs/mounts.h"
#include "os/process/login.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  switch (input.byte()) {
    case 's': {
      const std::string_view text = input.rest();
      const std::optional<os::ProcStat> stat = os::stat_in(7, text);
      if (stat) {
        fuzz::check(stat->pid == 7, "the pid asked for");
        fuzz::check(text.find("(" + stat->name + ")") != text.npos, "the name stands in the text");
      }
      break;
    }
    case 'e': {
      const std::string_view name = input.line();
      const std::string_view environment = input.rest();
      const std::optional<std::string> value = os::value_in(environment, name);
      if (value) {
        fuzz::check(value->find('\0') == value->npos, "a value ends where its entry ends");
        const std::string entry = std::string(name) + "=" + *value;
        fuzz::check(environment.find(entry) != environment.npos, "a value stands in the text");
      }
      break;
    }
    case 'c':
      for (const pid_t child : os::children_in(input.rest())) (void)child;
      break;
    case 'p':
      (void)os::proportional_bytes_in(input.rest());
      break;
    case 'i':
      (void)os::disk_bytes_in(input.rest());
      break;
    case 'n':
      (void)os::newest_pid_in(input.rest());
      break;
    case 'u': {
      const std::string name = gpu::user_name_in(input.rest(), 1000);
      fuzz::check(!name.empty() && name.find('\n') == name.npos, "a user has a name of one line");
      break;
    }
    case 'm':
      for (const os::Mount& mount : os::mounts_in(input.rest())) {
        fuzz::check(!mount.type.empty() && !mount.point.empty(), "a mount has a type and a point");
      }
      break;
    case 'l':
      (void)os::logout_ends_processes(os::logout_rules_in(input.rest(), {}), "alice");
      break;
    case 'x': {
      const std::string_view text = input.rest();
      for (const gpu::LoggedXid& xid : gpu::xids_in(text)) {
        fuzz::check(xid.pci.find('\n') == xid.pci.npos, "an address is of one line");
      }
      (void)gpu::kernel_module_version_in(text);
      (void)os::keeping_in(text);
      break;
    }
    case 'd': {
      const std::optional<gpu::DrmClient> client = gpu::drm_client_in(input.rest());
      if (client) {
        fuzz::check(client->pci.find('\n') == client->pci.npos, "an address is of one line");
        fuzz::check(!client->driver.empty() && client->pid == 0, "a driver, and no process yet");
      }
      break;
    }
    default:
      break;
  }
  return 0;
}
