// The coordinator's end of a client's connection: lines are the same however their bytes arrive,
// and none is longer than the limit.  The first byte says how long the pieces are.
#include <vector>

#include "fuzz.h"
#include "os/ipc/socket.h"
#include "pieces.h"

namespace {

constexpr std::size_t kLongestLine = 48;

std::vector<std::string> received(std::string_view bytes, std::size_t piece) {
  using namespace pergpu;
  std::vector<std::string> lines;
  int ends = 0;
  fuzz::Pieces pieces(bytes, piece);
  auto stream = os::LineStream::open(pieces.loop(), pieces.receiver(),
                                     {.on_line = [&](std::string_view l) { lines.emplace_back(l); },
                                      .on_close =
                                          [&](const Error&) {
                                            ++ends;
                                            pieces.loop().stop();
                                          }},
                                     kLongestLine);
  fuzz::check(static_cast<bool>(stream), "a stream");
  pieces.deliver();
  fuzz::check(ends == 1, "the end is told once");
  return lines;
}

std::vector<std::string> lines_of(std::string_view bytes) {
  std::vector<std::string> lines;
  while (true) {
    const std::size_t end = bytes.find('\n');
    if (end > kLongestLine) return lines;
    lines.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  const std::size_t piece = 1 + input.byte();
  const std::string_view bytes = input.take(4096);
  fuzz::check(received(bytes, piece) == lines_of(bytes),
              "lines do not depend on how their bytes arrive");
  return 0;
}
