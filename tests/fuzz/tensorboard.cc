// Event files of TensorBoard: whatever is in them, what comes out is bounded and can be told.
#include "view/model/tensorboard.h"

#include <nlohmann/json.hpp>

#include "../view/event_records.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view bytes = fuzz::text_of(data, size);
  view::NewestScalars newest;
  const auto take = [&](const std::vector<view::EventScalar>& scalars) {
    fuzz::check(scalars.size() <= size, "no more scalars than bytes");
    for (const view::EventScalar& scalar : scalars) {
      fuzz::check(!scalar.tag.empty() && scalar.tag.size() <= 256, "a tag of bounded length");
      newest.add(scalar);
    }
  };
  take(view::scalars_of_events(bytes));
  // Checksums keep nearly every input from the messages: these have one that fits.
  take(view::scalars_of_record(view::with_checksum(std::string(bytes))));
  fuzz::check(newest.metrics().size() <= view::NewestScalars::kMostTags + 1, "bounded");
  for (const auto& [name, text] : newest.exact_metrics()) {
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    fuzz::check(value.is_number() || value.is_string(), "each value is JSON");
  }
  return 0;
}
