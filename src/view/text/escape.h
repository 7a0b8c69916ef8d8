// Nothing of a job's text reaches a terminal raw (docs/architecture.md, promise 9): names, reasons,
// log lines and metrics are other people's bytes.
//
// Control sequences that only color or move (CSI … final byte) are left out, every other control
// character, line-reordering mark and byte that is not UTF-8 becomes visible (`\x1b`, `\u202e`).
#pragma once

#include <string>
#include <string_view>

namespace pergpu::view {

/// `text` as one line: line ends and tabs become blanks.
std::string safe_line(std::string_view text);

/// The same for a stream that arrives in pieces: line ends, tabs and carriage returns stay (a
/// progress bar may overwrite its own line), sequences split between two pieces are recognized.
class LogFilter {
 public:
  std::string feed(std::string_view piece);
  /// What was held back as the begin of a sequence, made visible.
  std::string finish();

 private:
  std::string held_;
};

/// The part of a log's last line that a terminal would show: behind its last carriage return.
std::string_view after_carriage_return(std::string_view line);

}  // namespace pergpu::view
