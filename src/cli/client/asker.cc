// Answers come in the order of the requests, so a queue of callbacks is all that is kept.
#include "cli/client/asker.h"

#include <utility>

namespace pergpu::cli {

using nlohmann::json;

Result<void> Asker::connect() {
  Result<Connection> connection = client_.connect();
  if (!connection) return std::move(connection).error();
  auto stream = os::LineStream::open(loop_, connection->release(),
                                     {.on_line = [this](std::string_view line) { on_line(line); },
                                      .on_close = [this](const Error& why) { on_close(why); }});
  if (!stream) return std::move(stream).error();
  stream_ = std::move(*stream);
  return {};
}

void Asker::ask(const json& request, Answer answer) {
  if (!stream_) {
    if (Result<void> connected = connect(); !connected) return answer(connected.error());
  }
  waiting_.push_back(std::move(answer));
  stream_->send(to_line(request));
}

void Asker::on_line(std::string_view line) {
  if (waiting_.empty()) return;
  const Answer answer = std::move(waiting_.front());
  waiting_.pop_front();
  answer(unwrap_reply(line));
}

void Asker::on_close(const Error& why) {
  stream_.reset();
  for (const Answer& answer : std::exchange(waiting_, {})) answer(why);
}

}  // namespace pergpu::cli
