// The end of a log, which any program may have written.  The first byte says how it ended.
#include "job/end_of_log.h"

#include "fuzz.h"
#include "job/traceback.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  if (size == 0) return 0;
  const std::string_view log = fuzz::text_of(data + 1, size - 1);
  constexpr int kCodes[] = {1, 2, 126, 127};
  const LogQuestion question{
      .log_tail = log, .is_quick = (data[0] & 4) != 0, .exit_code = kCodes[data[0] & 3]};
  if (const auto said = read_end_of_log(question)) {
    fuzz::check(said->line.size() <= 203, "what is quoted is short");
    for (const char c : said->line)
      fuzz::check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "no control characters");
  }
  const std::vector<LogLine> lines = log_lines(log);
  std::size_t last = 0;
  for (const PythonError& error : python_errors(lines)) {
    fuzz::check(error.first <= error.last && error.last < lines.size(), "it stands in the log");
    fuzz::check(error.last >= last, "in the order of the lines");
    last = error.last;
  }
  // A program that goes on has not ended by what it met; what a rank was ended by is another thing.
  if (log.find("[rank") != log.npos) return 0;
  const std::string longer = std::string(log) + "\nepoch 3 loss 0.5\n";
  const auto later = read_end_of_log({.log_tail = longer, .is_quick = true, .exit_code = 1});
  fuzz::check(!later, "what was handled does not count");
  (void)says_nothing(log);
  return 0;
}
