// What a probe says, and the process lists that a driver writes.  First byte: which of them.
#include <algorithm>
#include <vector>

#include "fuzz.h"
#include "gpu/nvml.h"
#include "gpu/probe_wire.h"

namespace {

using namespace pergpu;
using namespace pergpu::gpu;

std::string line_of(const ProbeAnswer& answer) {
  return std::visit([](const auto& one) { return to_line(one); }, answer);
}

void check_answer(std::string_view line) {
  const auto answer = parse_answer(line);
  if (!answer) return;
  const std::string once = line_of(*answer);
  const auto again = parse_answer(once);
  fuzz::check(again && line_of(*again) == once, "an answer written is the answer read");
}

void check_request(std::string_view line) {
  const auto request = parse_request(line);
  if (!request) return;
  const auto again = parse_request(to_line(*request));
  fuzz::check(again && *again == *request, "a request written is the request read");
}

/// The driver wrote `entries` into a buffer for `capacity` of them and says that `count` count.
void check_list(std::size_t count, std::size_t capacity, std::string_view entries) {
  std::vector<unsigned char> bytes(capacity * 64, kNvmlCanary);
  std::copy_n(entries.begin(), std::min(entries.size(), bytes.size()), bytes.begin());
  const auto processes = processes_in(bytes, count, capacity);
  if (!processes) return;
  fuzz::check(processes->size() == count && count <= capacity, "as many processes as counted");
  for (const NvmlProcess& process : *processes)
    fuzz::check(process.pid > 0 && process.pid <= 0x7fffffffu, "a pid that can be one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte()) {
    case 'a':
      check_answer(input.rest());
      break;
    case 'q':
      check_request(input.rest());
      break;
    case 'l': {
      const std::size_t count = input.byte();
      check_list(count, 61, input.rest());
      break;
    }
    default:
      break;
  }
  return 0;
}
