// `logs --json`: each line of a log as {"schema":1,"job":17,"line":"…"} on its own line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pergpu::cli {

class JsonLines {
 public:
  /// What the bytes completed; a line without its end is kept for the next call.
  std::string feed(std::int64_t job, std::string_view bytes);
  /// The last line, when it has no end.
  std::string finish(std::int64_t job);

 private:
  std::string rest_;
};

}  // namespace pergpu::cli
