// Files on a file system that many machines share: what was handed over, what tasks told, what is
// to end.  The first byte says which of them it is; what is understood comes out as it went in.
#include "store/handover.h"

#include "fuzz.h"
#include "store/end_request.h"
#include "store/records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  const std::uint8_t which = input.byte();
  const std::string_view text = input.rest();
  if (which % 4 == 0) {
    const Result<store::Handover> handover = store::handover_of(text);
    if (!handover) return 0;
    const Result<store::Handover> again = store::handover_of(to_text(*handover));
    fuzz::check(again && again->jobs == handover->jobs && again->key == handover->key,
                "a handover written is the handover read");
  } else if (which % 4 == 1) {
    const Result<store::RecordFile> file = store::records_of(text);
    if (!file) return 0;
    const Result<store::RecordFile> again = store::records_of(to_text(*file));
    fuzz::check(again && again->records == file->records && again->closed == file->closed &&
                    again->usage.size() == file->usage.size(),
                "records written are the records read");
  } else if (which % 4 == 2) {
    const Result<store::EndRequests> requests = store::end_requests_of(text);
    if (!requests) return 0;
    const auto again = store::end_requests_of(store::to_text(*requests));
    fuzz::check(again && again->jobs.size() == requests->jobs.size(),
                "requests written are those read");
  } else {
    const auto name = store::record_name_of(text);
    fuzz::check(!name || to_string(*name) == text, "a name has one spelling");
  }
  return 0;
}
