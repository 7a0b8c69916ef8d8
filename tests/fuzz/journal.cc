// Rows of the journal, one a line: "kind body".  What is understood is written and read again
// without a change; a history of such events never breaks a job, whatever their order.
#include "fuzz.h"
#include "job/job.h"
#include "store/event_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  Job job;
  job.id = {1};
  std::int64_t now = 0;
  while (!input.empty()) {
    const std::string_view line = input.line();
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string_view kind = line.substr(0, blank);
    const Result<JobEvent> event =
        store::event_of(kind, line.substr(std::min(blank + 1, line.size())));
    if (!event) {
      fuzz::check(event.error().kind == ErrorKind::Corrupt, "a row that makes no sense is damage");
      continue;
    }
    fuzz::check(event_name(*event) == kind, "an event keeps its kind");
    const std::string body = store::event_body(*event);
    const Result<JobEvent> again = store::event_of(kind, body);
    fuzz::check(again && *again == *event, "an event written is the event read");
    const JobState before = job.state;
    const bool applied = static_cast<bool>(apply(job, *event, Instant{now, now}));
    fuzz::check(applied || job.state == before, "a refused event changes nothing");
    ++now;
  }
  return 0;
}
