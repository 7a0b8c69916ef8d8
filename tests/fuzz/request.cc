// Requests of clients: what can be read is one of the protocol's, with fields within their bounds.
#include "api/request.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "spec/runs/run_table.h"
#include "spec/sweep/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view line = fuzz::text_of(data, size);
  const Result<Request> request = request_of(line);
  if (!request) {
    fuzz::check(!request.error().message.empty(), "a refusal says why");
    return 0;
  }
  fuzz::check(request->runs <= kMaxRuns, "the number of runs is bounded");
  fuzz::check(request->level >= 1 && request->level <= 3, "the level is one of three");
  // Every step counts a few bytes of the line, and so does every other element.
  fuzz::check(request->sweep.steps.size() <= size && request->selectors.size() <= size &&
                  request->context.env.size() <= size,
              "a request holds no more than its line");
  const Result<SweepSpec> again = sweep_from_wire(to_wire(request->sweep));
  fuzz::check(again && *again == request->sweep, "a sweep written again is the same sweep");
  const nlohmann::json context = request->context;
  fuzz::check(nlohmann::json(context.get<SubmitContext>()) == context,
              "a context written again is the same context");
  return 0;
}
