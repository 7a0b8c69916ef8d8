// Messages between coordinator and keeper, the records of dead keepers, and what jobs say.  First
// byte: which of them.
#include "fuzz.h"
#include "keeper/folder.h"
#include "keeper/notify.h"
#include "keeper/protocol.h"

namespace {

using namespace pergpu;

template <typename Message>
void check_message(std::string_view payload) {
  const std::optional<Message> message = keeper::decode<Message>(payload);
  if (!message) return;
  const std::string bytes = keeper::encode(*message);
  const std::optional<Message> again = keeper::decode<Message>(bytes);
  fuzz::check(again.has_value(), "a message that was written can be read");
  fuzz::check(keeper::encode(*again) == bytes, "a message read is the message written");
}

void check_notify(fuzz::Input& input) {
  keeper::NotifyFilter filter;
  std::int64_t now = 0;
  std::size_t lines = 0;
  const auto take = [&](const std::vector<std::string>& told) {
    for (const std::string& line : told) {
      ++lines;
      fuzz::check(line.size() <= keeper::NotifyFilter::kLongestLine, "a line is bounded");
      for (const char c : line)
        fuzz::check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "no control byte is told");
    }
  };
  while (!input.empty()) {
    now += static_cast<std::int64_t>(input.byte()) * 1'000'000;
    take(filter.due(now));
    take(filter.accept(input.take(input.byte()), now));
  }
  take(filter.drain());
  fuzz::check(!filter.next_due(), "nothing waits after the end");
  fuzz::check(lines <= 4 * (2 + static_cast<std::size_t>(now / keeper::NotifyFilter::kIntervalNs)),
              "a job that talks without end is told five times a second");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t which = input.byte();
  if (which == 'n') {
    check_notify(input);
    return 0;
  }
  const std::string_view payload = input.rest();
  switch (which) {
    case 'r':
      (void)keeper::record_head(payload);
      return 0;
    case 'h':
      check_message<keeper::Held>(payload);
      return 0;
    default:
      break;
  }
  switch (static_cast<keeper::Type>(which)) {
    case keeper::Type::Hello:
      check_message<keeper::Hello>(payload);
      break;
    case keeper::Type::Prepare:
      check_message<keeper::Prepare>(payload);
      break;
    case keeper::Type::Start:
      check_message<keeper::Start>(payload);
      break;
    case keeper::Type::Stop:
      check_message<keeper::Stop>(payload);
      break;
    case keeper::Type::Forget:
      check_message<keeper::Forget>(payload);
      break;
    case keeper::Type::Rebind:
      check_message<keeper::Rebind>(payload);
      break;
    case keeper::Type::Quit:
      check_message<keeper::Quit>(payload);
      break;
    case keeper::Type::Signal:
      check_message<keeper::Signal>(payload);
      break;
    case keeper::Type::Quiet:
      check_message<keeper::Quiet>(payload);
      break;
    case keeper::Type::Yield:
      check_message<keeper::Yield>(payload);
      break;
    case keeper::Type::State:
      check_message<keeper::State>(payload);
      break;
    case keeper::Type::Started:
      check_message<keeper::Started>(payload);
      break;
    case keeper::Type::SpawnFailed:
      check_message<keeper::SpawnFailed>(payload);
      break;
    case keeper::Type::Exited:
      check_message<keeper::Exited>(payload);
      break;
    case keeper::Type::Memory:
      check_message<keeper::Memory>(payload);
      break;
    case keeper::Type::Notify:
      check_message<keeper::Notify>(payload);
      break;
  }
  return 0;
}
