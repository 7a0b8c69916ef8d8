// Runs as JSON: canonical JSON is its own canonical form, says the same as the text, and its
// members are those that other readers find.
#include "spec/text/canonical_json.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "spec/sweep/wire.h"
#include "spec/text/json_members.h"
#include "spec/text/source_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view text = fuzz::text_of(data, size);
  const Result<std::string> canonical = canonicalise(text);
  if (canonical) {
    const Result<std::string> again = canonicalise(*canonical);
    fuzz::check(again && *again == *canonical, "canonical JSON is its own canonical form");
  }
  // Numbers beyond any double are members, and other readers refuse them.
  const bool may_be_huge = text.find_first_of("eE") != text.npos || text.size() > 300;
  const bool is_utf8 = find_invalid_utf8(text) == text.npos;
  const Result<void> visited = visit_members(text, [&](std::string&&, std::string_view value) {
    fuzz::check(may_be_huge || !is_utf8 || nlohmann::json::accept(value),
                "a member's value is JSON");
  });
  if (visited) {
    fuzz::check(may_be_huge || !is_utf8 || nlohmann::json::accept(text), "an object is JSON");
  }

  const Result<RunSpec> run = run_from_wire(text);
  if (run) {
    const Result<RunSpec> back = run_from_wire(to_wire(*run));
    fuzz::check(back && *back == *run, "a run written is the run read");
    (void)sweep_from_wire(text);
  }
  return 0;
}
