// `pergpu run [options] -- CMD ARG… ::: …`: one word a line, the first ones after "-g".  What is
// accepted can be written as a sweep file that says the same.
#include "spec/schema/command_line.h"

#include "fuzz.h"
#include "spec/schema/emit.h"
#include "spec/schema/load.h"
#include "spec/text/source_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view text = fuzz::text_of(data, size);
  if (find_invalid_utf8(text) != text.npos || text.find('\0') != text.npos) return 0;
  fuzz::Input input(data, size);
  CommandLineOptions options;
  options.folder = "/w";
  options.name = "n";
  std::vector<std::string> words;
  std::size_t lists = 0;
  while (!input.empty() && words.size() < 60) {
    const std::string_view line = input.line();
    if (line.starts_with("-g") && lists < 3) {
      options.lists.emplace_back(line.substr(2));
      ++lists;
    } else {
      words.emplace_back(line);
    }
  }
  const ParsedSweep parsed = sweep_from_command_line(options, words);
  if (!parsed.sweep) {
    fuzz::check(!parsed.diagnostics.empty(), "a refusal says why");
    return 0;
  }
  const Result<std::string> emitted = emit_toml(*parsed.sweep);
  if (!emitted) return 0;
  ParsedSweep again = parse_sweep(*emitted, SweepFormat::Toml, "/w/n.toml");
  fuzz::check(again.sweep.has_value(), "an emitted sweep file is accepted");
  again.sweep->file = parsed.sweep->file;
  fuzz::check(*again.sweep == *parsed.sweep, "an emitted sweep file says the same");
  return 0;
}
