// Requests to the meeting place: what can be read is within the bounds of the protocol.
#include "broker/meeting_request.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const Result<MeetingRequest> request = meeting_request_of(fuzz::text_of(data, size));
  if (!request) {
    fuzz::check(!request.error().message.empty(), "a refusal says why");
    return 0;
  }
  using Op = MeetingRequest::Op;
  using Scope = MeetingRequest::Scope;
  fuzz::check(size <= kMostMeetingBytes, "a request is short");
  fuzz::check(is_meeting_name(request->name) == (request->op == Op::Get), "a get has a name");
  fuzz::check(request->name.find('/') == std::string::npos, "a name is no path");
  fuzz::check(request->title.empty() == (request->op != Op::Get), "a get has a title");
  fuzz::check(request->what.empty() == (request->op != Op::Drop), "a drop says what");
  fuzz::check(request->job.value >= 0, "a job is a number");
  fuzz::check(request->scope == Scope::Sweep || !request->job, "only a sweep's has a job");
  return 0;
}
