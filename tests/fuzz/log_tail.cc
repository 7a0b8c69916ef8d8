// The ends of logs and metrics files.  First byte: how many lines.
#include "cli/job_files/tail.h"
#include "fuzz.h"
#include "view/model/metrics.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  const std::size_t most = input.byte() % 8;
  const std::string_view text = input.rest();
  const std::vector<std::string> lines = cli::last_lines_in(text, most);
  fuzz::check(lines.size() <= most, "no more lines than asked for");
  std::size_t from = 0;
  for (const std::string& line : lines) {
    fuzz::check(line.find('\n') == line.npos, "a line is one line");
    const std::size_t at = text.find(line, from);
    fuzz::check(at != text.npos, "lines are of the text, in its order");
    from = at + line.size();
    for (const auto& [name, value] : view::metrics_of_line(line)) (void)name, (void)value;
    (void)view::metrics_text(view::metrics_of_line(line));
  }
  return 0;
}
