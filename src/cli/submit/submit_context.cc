// A CUDA_VISIBLE_DEVICES that is set but empty means "no GPU" to CUDA; it travels as "-1", which
// means the same, because an empty list means "all".
#include "cli/submit/submit_context.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "cli/submit/git.h"
#include "os/fs/file.h"
#include "os/process/process_attributes.h"
#include "os/process/spawn.h"
#include "os/random.h"

namespace pergpu::cli {
namespace {

std::string devices_of_shell() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return "";
  return *visible ? visible : "-1";
}

}  // namespace

SubmitContext capture_context(const std::string& folder, const std::string& devices) {
  SubmitContext context;
  std::array<char, PATH_MAX> cwd{};
  if (::getcwd(cwd.data(), cwd.size())) context.cwd = cwd.data();
  context.umask = os::current_umask();
  context.shell = os::own_attributes();
  for (const os::SpawnLimit& limit : context.shell->limits)
    context.limits.emplace_back(limit.resource, limit.soft);
  context.env = os::own_environment();
  context.devices = devices.empty() ? devices_of_shell() : devices;
  const GitState git = git_state_of(folder);
  context.git_commit = git.commit;
  context.git_dirty = git.dirty;
  context.key = os::random_hex(16);
  return context;
}

}  // namespace pergpu::cli
