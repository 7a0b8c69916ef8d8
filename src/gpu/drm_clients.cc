// What a fork inherits is the same client in two processes.  It counts for the lower pid, which is
// the parent as a rule: its memory is there once, and once the parent has ended the child has it.
//
// A program may draw with buffers in the GPU's memory, and computes as a rule by its own queues
// (ROCm) that take no time of an engine.  So a client with time on the engine for graphics and none
// on that for computing is one that draws.
#include "gpu/drm_clients.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "ascii.h"
#include "number.h"
#include "os/fs/file.h"

namespace pergpu::gpu {

namespace {

constexpr std::size_t kLongest = 64u << 10;
constexpr std::size_t kMaxClients = 4096;
constexpr std::string_view kDevices = "/dev/";
constexpr std::string_view kLineBlanks = " \t\r";

/// "544428 KiB", "22 MiB", "0".
std::optional<std::uint64_t> bytes_in(std::string_view text) {
  const std::size_t space = std::min(text.find_first_of(" \t"), text.size());
  const std::optional<std::uint64_t> value = whole_number<std::uint64_t>(text.substr(0, space));
  if (!value) return std::nullopt;
  const std::string_view unit = trimmed(text.substr(space), kLineBlanks);
  unsigned shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  if (*value > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return *value << shift;
}

/// "39456116802 ns".
bool is_time_spent(std::string_view text) {
  return whole_number<std::uint64_t>(text.substr(0, text.find(' '))).value_or(0) > 0;
}

std::vector<std::int32_t> numbers_of(const std::string& folder) {
  std::vector<std::int32_t> numbers;
  const Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return numbers;
  for (const std::string& name : *names) {
    if (const auto number = whole_number<std::int32_t>(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

/// Most descriptors are of files, pipes and sockets: a link is read in a fraction of the time that
/// fdinfo takes.
bool may_be_device(const std::string& link) {
  std::array<char, kDevices.size()> target;
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  return size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) == kDevices;
}

}  // namespace

std::optional<DrmClient> drm_client_in(std::string_view fdinfo) {
  DrmClient client;
  std::optional<std::uint64_t> id;
  std::optional<std::uint64_t> vram;
  bool draws = false;
  bool computes = false;
  while (!fdinfo.empty()) {
    const std::string_view line = fdinfo.substr(0, fdinfo.find('\n'));
    fdinfo.remove_prefix(std::min(line.size() + 1, fdinfo.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1), kLineBlanks);
    if (key == "drm-driver") client.driver = value;
    if (key == "drm-pdev") client.pci = value;
    if (key == "drm-client-id") id = whole_number<std::uint64_t>(value);
    if (key == "drm-memory-vram") vram = bytes_in(value);
    if (key == "drm-engine-gfx") draws = is_time_spent(value);
    if (key == "drm-engine-compute") computes = is_time_spent(value);
  }
  if (client.driver.empty() || client.pci.empty() || !id || !vram) return std::nullopt;
  client.id = *id;
  client.vram_bytes = *vram;
  client.only_draws = draws && !computes;
  return client;
}

std::vector<DrmClient> drm_clients(const std::string& proc, std::string_view driver) {
  std::vector<DrmClient> clients;
  std::set<std::tuple<std::string, std::uint64_t>> known;
  for (const std::int32_t pid : numbers_of(proc)) {
    const std::string process = fmt::format("{}/{}", proc, pid);
    for (const std::int32_t fd : numbers_of(process + "/fdinfo")) {
      if (clients.size() == kMaxClients) return clients;
      if (!may_be_device(fmt::format("{}/fd/{}", process, fd))) continue;
      const Result<std::string> text =
          os::read_file(fmt::format("{}/fdinfo/{}", process, fd), kLongest);
      if (!text) continue;
      std::optional<DrmClient> client = drm_client_in(*text);
      if (!client || client->driver != driver) continue;
      if (!known.emplace(client->pci, client->id).second) continue;
      client->pid = pid;
      clients.push_back(*std::move(client));
    }
  }
  return clients;
}

}  // namespace pergpu::gpu
