// What comes in over the port of `pergpu serve`: in one piece or in many it is the same, and
// nothing without the secret is let through.
#include "fuzz.h"
#include "serve/event_stream.h"
#include "serve/guard.h"
#include "serve/http_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  serve::HttpParser whole;
  whole.add(bytes);
  serve::HttpParser pieces;
  std::vector<serve::HttpRequest> piecewise;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    pieces.add(bytes.substr(i, 3));
    while (auto request = pieces.next()) piecewise.push_back(*std::move(request));
  }
  std::size_t count = 0;
  const serve::GuardRules rules{
      .hosts = {"h"}, .secret = "not to be found by chance", .session = "nor this", .open = {"/"}};
  while (const auto request = whole.next()) {
    fuzz::check(count < piecewise.size() && piecewise[count].path == request->path &&
                    piecewise[count].fields == request->fields &&
                    piecewise[count].body == request->body,
                "in pieces it is the same request");
    ++count;
    const bool is_open = request->path == "/" || request->path == serve::kLoginPath;
    fuzz::check(is_open || serve::refuse(*request, rules).has_value(),
                "without the secret nothing is let through");
    if (const auto position = serve::position_of(request->field("last-event-id"))) {
      fuzz::check(serve::position_of(serve::id_of(*position)) == position, "an id is read back");
    }
  }
  fuzz::check(count == piecewise.size(), "in pieces there are as many requests");
  return 0;
}
