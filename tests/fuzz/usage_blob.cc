// What the store keeps of an attempt's usage.
#include "job/usage_blob.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto minutes = minutes_of_bytes(bytes, 0);
  if (!minutes) return 0;
  const auto again = minutes_of_bytes(minutes_to_bytes(*minutes, 0), 0);
  fuzz::check(again && *again == *minutes, "minutes written are the minutes read");
  return 0;
}
