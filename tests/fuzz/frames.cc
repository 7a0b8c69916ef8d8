// Both ends of a keeper's connection: the coordinator's FrameStream and the keeper's Connection cut
// the same bytes into the same frames, however they arrive.  The first byte says how long the
// pieces are.
#include <sys/epoll.h>

#include <utility>
#include <vector>

#include "fuzz.h"
#include "keeper/connection.h"
#include "os/ipc/socket.h"
#include "pieces.h"

namespace {

using Frames = std::vector<std::pair<std::uint8_t, std::string>>;

constexpr std::size_t kLongestPayload = 200;

Frames coordinators(std::string_view bytes, std::size_t piece) {
  using namespace pergpu;
  Frames frames;
  fuzz::Pieces pieces(bytes, piece);
  auto stream = os::FrameStream::open(
      pieces.loop(), pieces.receiver(),
      {.on_frame =
           [&](os::FrameStream::Frame f) { frames.emplace_back(f.type, std::move(f.payload)); },
       .on_close = [&](const Error&) { pieces.loop().stop(); }},
      kLongestPayload);
  fuzz::check(static_cast<bool>(stream), "a stream");
  pieces.deliver();
  return frames;
}

Frames keepers(std::string_view bytes, std::size_t piece) {
  using namespace pergpu;
  Frames frames;
  fuzz::Pieces pieces(bytes, piece);
  os::UniqueFd end = pieces.receiver();
  fuzz::check(static_cast<bool>(os::set_nonblocking(end.get())), "a non-blocking socket");
  const int fd = end.get();
  keeper::Connection connection(std::move(end));
  auto watched = pieces.loop().watch(fd, EPOLLIN, [&](std::uint32_t) {
    const bool open = connection.read();
    while (const auto frame = connection.next())
      frames.emplace_back(frame->type, std::string(frame->payload));
    if (!open) pieces.loop().stop();
  });
  fuzz::check(static_cast<bool>(watched), "a watch");
  pieces.deliver();
  return frames;
}

/// What both must have found: all frames before the first that is too long.
Frames frames_of(std::string_view bytes, std::size_t longest) {
  Frames frames;
  while (bytes.size() >= 5) {
    std::size_t size = 0;
    for (std::size_t i = 4; i-- > 0;) size = size << 8 | static_cast<unsigned char>(bytes[i]);
    if (size > longest || bytes.size() < 5 + size) break;
    frames.emplace_back(static_cast<std::uint8_t>(bytes[4]), bytes.substr(5, size));
    bytes.remove_prefix(5 + size);
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::Input input(data, size);
  const std::size_t piece = 1 + input.byte();
  const std::string_view bytes = input.take(4096);
  fuzz::check(coordinators(bytes, piece) == frames_of(bytes, kLongestPayload),
              "the coordinator's frames do not depend on how their bytes arrive");
  fuzz::check(keepers(bytes, piece) == frames_of(bytes, keeper::kLongestPayload),
              "the keeper's frames do not depend on how their bytes arrive");
  return 0;
}
