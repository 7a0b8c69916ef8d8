// What a coordinator tells its clients, read by a client: any JSON is read to something, and what
// was read is written and read again without a change.
#include "api/snapshot.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "job/json_depth.h"
#include "view/commands/show.h"

namespace {

using nlohmann::json;

template <typename T>
void check_round_trip(const json& value) {
  const json once = value.get<T>();
  const json twice = once.get<T>();
  pergpu::fuzz::check(once == twice, "a snapshot written again is the same snapshot");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view text = fuzz::text_of(data, size);
  const std::int64_t instant = from_rfc3339(std::string(text));
  if (instant != 0) {
    const std::int64_t milliseconds = instant - instant % 1'000'000;
    if (instant > 0)
      fuzz::check(from_rfc3339(rfc3339(instant)) == milliseconds, "an instant is read back");
  }
  if (nests_deeper_than(text, kMostNestedJson)) return 0;
  const json value = json::parse(text, nullptr, false);
  if (!value.is_object()) return 0;
  check_round_trip<JobSnapshot>(value);
  check_round_trip<SweepSnapshot>(value);
  check_round_trip<LaneSnapshot>(value);
  check_round_trip<GpuSnapshot>(value);
  check_round_trip<SubmitReply>(value);
  check_round_trip<SubmitPreview>(value);
  check_round_trip<SubmitContext>(value);
  const std::string shown = view::show_text(value, 0, view::Style{});
  for (const char c : shown)
    fuzz::check(static_cast<unsigned char>(c) >= 0x20 || c == '\n', "no control byte is shown");
  return 0;
}
