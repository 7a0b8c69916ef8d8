// Prefixes are read by a small matcher, not by regular expressions: it is one pass over 64 KiB, and
// a line of a stranger's log cannot make it slow.
#include "job/log_lines.h"

#include <algorithm>
#include <array>

#include "ascii.h"

namespace pergpu {
namespace {

/// Reads `form` at the front of `text`; returns how many bytes it took, 0 if it is not there.
///
/// In a form: 9 a digit, # digits, & a word (letters, digits, _ . - /), ~ spaces (maybe none), *
/// anything up to the next character of the form, ? makes what is before it optional; the rest
/// stands for itself.
std::size_t match_front(std::string_view text, std::string_view form) {
  constexpr std::size_t kLongestGap = 120;
  std::size_t at = 0;
  const auto take = [&](auto accepts) {
    const std::size_t begin = at;
    while (at < text.size() && accepts(text[at])) ++at;
    return at > begin;
  };
  for (std::size_t f = 0; f < form.size(); ++f) {
    bool found = true;
    if (form[f] == '9') {
      found = at < text.size() && is_digit(text[at]);
      if (found) ++at;
    } else if (form[f] == '#') {
      found = take(is_digit);
    } else if (form[f] == '&') {
      found = take([](char c) { return is_name_char(c) || c == '.' || c == '-' || c == '/'; });
    } else if (form[f] == '~') {
      take([](char c) { return c == ' '; });
    } else if (form[f] == '*') {
      const std::size_t end = text.find(form[f + 1], at);
      found = end != std::string_view::npos && end - at <= kLongestGap;
      if (found) at = end;
    } else {
      found = at < text.size() && text[at] == form[f];
      if (found) ++at;
    }
    const bool is_optional = f + 1 < form.size() && form[f + 1] == '?';
    if (!found && !is_optional) return 0;
    if (is_optional) ++f;
  }
  return at;
}

// Of several processes that write to one log.
constexpr std::array<std::string_view, 16> kTags = {
    "[rank#]: ?",  // PyTorch: each line of an uncaught exception
    "[default#]: ?",
    "[trainer#]: ?",  // torchrun --tee, with the name of its role
    "[worker#]: ?",   //
    "[#,#]<stderr>: ?",
    "[#,#]<stdout>: ?",  // mpirun --tag-output
    "(& pid=#*) ?",
    "(pid=#*) ?",  // Ray, vLLM
    "#: ",         // srun --label
    "[#]: ?",
    "[#] ",  // MPICH, DeepSpeed
    "rank #: ",
    "rank#: ",
    "[rank: #] ",
    "Rank #: ",  //
    "&~| ",      // Docker Compose
};

// When it was written.
constexpr std::array<std::string_view, 10> kTimes = {
    "[9999-99-99*] ?",              // Hydra, Accelerate
    "9999-99-99T99:99:99.?#?Z? ?",  // containers
    "9999-99-99 99:99:99.# ?",      //
    "9999-99-99 99:99:99,# ?",      // Python's logging
    "9999-99-99 99:99:99 ?",        //
    "[99:99:99] ?",
    "99:99:99 ",  //
    "ERROR 99-99 99:99:99 [*] ?",
    "WARNING 99-99 99:99:99 [*] ?",  // vLLM
    "INFO 99-99 99:99:99 [*] ?",
};

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// "Nov 27 15:44:06 ", and what journald puts behind it: "node7 train[4711]: ".
std::size_t syslog_front(std::string_view text) {
  if (std::none_of(kMonths.begin(), kMonths.end(),
                   [&](std::string_view month) { return text.starts_with(month); })) {
    return 0;
  }
  const std::size_t time = match_front(text.substr(3), "~# 99:99:99 ?");
  if (time == 0) return 0;
  return 3 + time + match_front(text.substr(3 + time), "& &[#]: ?");
}

std::size_t tag_front(std::string_view text) {
  for (const std::string_view form : kTags) {
    if (const std::size_t size = match_front(text, form)) return size;
  }
  return 0;
}

std::size_t time_front(std::string_view text) {
  for (const std::string_view form : kTimes) {
    if (const std::size_t size = match_front(text, form)) return size;
  }
  return syslog_front(text);
}

/// "  0: ", as srun pads it: how many bytes.
std::size_t padding_of_label(std::string_view text) {
  const std::size_t padding = std::min(text.find_first_not_of(' '), text.size());
  return padding > 0 && match_front(text.substr(padding), "#: ") > 0 ? padding : 0;
}

/// `is_padded`: labels of tasks have blanks before them.
LogLine line_of(std::string_view raw, bool is_padded) {
  LogLine line{.text = without_escapes(raw)};
  std::string_view rest = line.text;
  if (is_padded) rest.remove_prefix(padding_of_label(rest));
  constexpr int kMostPrefixes = 4;
  for (int i = 0; i < kMostPrefixes; ++i) {
    if (const std::size_t tag = tag_front(rest)) {
      line.tag += trimmed(rest.substr(0, tag));
      rest.remove_prefix(tag);
    } else if (const std::size_t time = time_front(rest)) {
      rest.remove_prefix(time);
    } else {
      break;
    }
  }
  line.text = std::string(rest);
  return line;
}

bool is_progress_bar(std::string_view text) {
  return contains(text, "it/s") || contains(text, "s/it") || contains(text, "%|") ||
         contains(text, "?B/s") || contains(text, "━━");
}

/// What may stand before "epoch 3": nothing, a level or a name of a logger, "Starting".
bool opens_progress(std::string_view before) {
  constexpr std::size_t kLongest = 60;
  before = trimmed(before);
  if (before.size() > kLongest) return false;
  for (const std::string_view word :
       {"train", "training", "starting", "start of", "end of", "finished", "eval"}) {
    if (!before.ends_with(word)) continue;
    before = trimmed(before.substr(0, before.size() - word.size()));
    break;
  }
  if (before.empty()) return true;
  constexpr std::string_view kEnds = ":]|->)[(";
  return kEnds.find(before.back()) != std::string_view::npos;
}

/// "epoch 3", "Epoch: 3/10", "[step 17]", "iter=5": a word of training with a number at once.
bool counts_progress(std::string_view text) {
  std::string low(text.substr(0, 200));
  std::transform(low.begin(), low.end(), low.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  // "Error: step 3 failed", "NaN: epoch 3": the end of it.
  for (const std::string_view bad : {"error", "fail", "nan"}) {
    if (contains(low, bad)) return false;
  }
  const bool is_json = low.starts_with("{");  // {'loss': 0.5, 'epoch': 1.0}
  const std::string_view between = is_json ? " :='\"" : " :=[";
  for (const std::string_view word : {"epoch", "step", "iter", "iteration", "batch"}) {
    for (std::size_t at = low.find(word); at != std::string::npos; at = low.find(word, at + 1)) {
      if (at > 0 && is_name_char(low[at - 1])) continue;
      const std::size_t end = at + word.size();
      const std::size_t number = std::min(low.find_first_not_of(between, end), low.size());
      const bool has_number =
          number > end && number <= end + 3 && number < low.size() && is_digit(low[number]);
      if (has_number && is_json) return true;
      if (has_number && opens_progress(std::string_view(low).substr(0, at))) return true;
    }
  }
  return false;
}

constexpr std::array<std::string_view, 57> kTrailers = {
    "wandb:", "swanlab:", "[neptune] ", "ClearML ", "COMET ", "🏃", "🧪",
    "srun:", "slurmstepd:", "mpirun ", "prterun ", "make:", "make[",
    "ninja:", "ERROR conda.cli.main_run", "Set the environment variable HYDRA_FULL_ERROR",
    "For simplicity, JAX has removed", "The stack trace below excludes JAX-internal frames",
    "The preceding is the original exception that occurred", "CUDA kernel errors might be",
    "For debugging consider passing", "Compile with `TORCH_USE_CUDA_DSA`", "Device-side assertion",
    "Search for `cudaError", "Hint: If you want to see a list of allocated",
    "Exception raised from ", "frame #", "goroutine ", "Detailed tracebacks of the workers",
    "Aborted", "Killed", "Terminated", "Segmentation fault", "Execution halted", "exit status ",
    "WARNING:torch.distributed", "ERROR:torch.distributed", "INFO:torch.distributed",
    "torch.distributed.elastic", "Exception ignored", "note: ", "resource_tracker:",
    // mpirun, MPICH, DeepSpeed, shells with -x, Julia, Node.js
    "Primary job ", "a non-zero exit code. Per user", "mpirun detected", "prterun detected",
    "the job to be terminated", "=   ", "[INFO] [launch.py", "[ERROR] [launch.py", "+ ",
    "Stacktrace:", "in expression starting at", "Node.js v",
    // TensorFlow, XLA: warnings behind a time
    ": W ", ": I ", ": E "};

/// "----", "====": rules between parts.
bool is_rule(std::string_view text) {
  return text.size() >= 3 && text.find_first_not_of("-=*#~_+ ") == std::string_view::npos;
}

/// "E1127 12:00:00.000000 4711 api.py:874] …", also in brackets: what glog and similar loggers
/// write.
bool is_glog(std::string_view text) {
  if (text.starts_with("[")) text.remove_prefix(1);
  constexpr std::string_view kLevels = "IWEF";
  if (text.empty() || kLevels.find(text.front()) == std::string_view::npos) return false;
  return match_front(text.substr(1), "9999 99:99:#.#") > 0;
}

bool is_trailer(std::string_view text) {
  if (contains(text, "fork: ")) return false;  // make couldn't start its first program
  if (std::any_of(kTrailers.begin(), kTrailers.end(),
                  [&](std::string_view front) { return text.starts_with(front); })) {
    return true;
  }
  return is_rule(text) || is_glog(text) || contains(text, "multiprocessing/resource_tracker.py");
}

bool is_detail(std::string_view text) {
  if (text.front() == ' ' || text.front() == '\t' || is_matlab_frame(text)) return true;
  for (const std::string_view edge : {"│", "╭", "╰", "├", "|", "+-", "❱", "# "}) {
    if (text.starts_with(edge)) return true;
  }
  return text == "#";
}

}  // namespace

bool is_matlab_frame(std::string_view text) {
  constexpr std::string_view kPlace = " (line ";
  const std::size_t at = text.find(kPlace);
  return at != text.npos && match_front(text.substr(at + kPlace.size()), "#)") > 0 &&
         text.starts_with("Error in ");
}

std::string without_escapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == 0x1b && at + 1 < text.size() && text[at + 1] == '[') {  // CSI: up to its letter
      at += 2;
      while (at < text.size() && !(text[at] >= '@' && text[at] <= '~')) ++at;
    } else if (c == 0x1b && at + 1 < text.size() &&
               text[at + 1] == ']') {  // OSC: up to BEL, ESC \.
      at += 2;
      while (at < text.size() && text[at] != 0x07 && text[at] != 0x1b) ++at;
      if (at + 1 < text.size() && text[at] == 0x1b && text[at + 1] == '\\') ++at;
    } else if (c == 0x1b) {
      ++at;
    } else if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
      out += text[at];
    }
  }
  return out;
}

namespace {

/// "node7: Traceback (most recent call last):", and "node7:   File …" below: pdsh and others put a
/// name before each line.
std::string tag_of_header(const std::string& header, const std::string& below) {
  const std::size_t at = header.find(kTracebackHeader);
  if (at == header.npos || at == 0 || header.front() == ' ') return {};
  std::string front = header.substr(0, at);
  return below.starts_with(front + "  File \"") ? front : std::string();
}

void take_tags_of_headers(std::vector<LogLine>& lines) {
  constexpr std::size_t kMostTags = 64;
  std::vector<std::string> tags;
  for (std::size_t i = 0; i + 1 < lines.size() && tags.size() < kMostTags; ++i) {
    std::string tag = tag_of_header(lines[i].text, lines[i + 1].text);
    if (!tag.empty() && std::find(tags.begin(), tags.end(), tag) == tags.end()) {
      tags.push_back(std::move(tag));
    }
  }
  for (LogLine& line : lines) {
    for (const std::string& tag : tags) {
      if (!line.text.starts_with(tag)) continue;
      line.tag += trimmed(tag);
      line.text.erase(0, tag.size());
      break;
    }
  }
}

}  // namespace

namespace {

// What follows a name in programs that can't find it.
constexpr std::array<std::string_view, 6> kAfterName = {": No such file or directory",
                                                        "': No such file or directory",
                                                        "’: No such file or directory",
                                                        "': not found",
                                                        ": not found",
                                                        ": bad interpreter"};

/// Some label has blanks before it: that of a traceback shows it.
bool has_padded_labels(std::string_view log_tail) {
  for (std::size_t at = log_tail.find(kTracebackHeader); at != log_tail.npos;
       at = log_tail.find(kTracebackHeader, at + 1)) {
    const std::size_t begin = at == 0 ? 0 : log_tail.find_last_of("\r\n", at - 1) + 1;
    if (padding_of_label(log_tail.substr(begin, at - begin)) > 0) return true;
  }
  return false;
}

/// A name that was looked for with a '\r' at its end: "env: 'python3\r': No such file or
/// directory". Newer programs write it as these two characters, older ones as it is.
std::string with_written_returns(std::string_view text) {
  std::string out;
  for (std::size_t at = text.find('\r'); at != text.npos; at = text.find('\r')) {
    const std::string_view after = text.substr(at + 1);
    const bool is_in_name =
        std::any_of(kAfterName.begin(), kAfterName.end(),
                    [&](std::string_view words) { return after.starts_with(words); });
    out += text.substr(0, at);
    out += is_in_name ? "\\r" : "\r";
    text = after;
  }
  return out += text;
}

}  // namespace

std::vector<LogLine> log_lines(std::string_view raw_tail) {
  const std::string written = with_written_returns(raw_tail);
  std::string_view log_tail = written;
  const bool is_padded = has_padded_labels(log_tail);
  std::vector<LogLine> lines;
  while (!log_tail.empty()) {
    const std::size_t end = std::min(log_tail.find_first_of("\r\n"), log_tail.size());
    // "\r\n" ends one line; a bar that begins with '\r' leaves an empty one, which says nothing.
    const bool is_crlf = end + 1 < log_tail.size() && log_tail.substr(end, 2) == "\r\n";
    const bool is_bar = end < log_tail.size() && log_tail[end] == '\r' && !is_crlf;
    if (end > 0 || !is_bar) lines.push_back(line_of(log_tail.substr(0, end), is_padded));
    log_tail.remove_prefix(std::min(end + (is_crlf ? 2 : 1), log_tail.size()));
  }
  take_tags_of_headers(lines);
  return lines;
}

LineKind kind_of(std::string_view text) {
  if (trimmed(text).empty()) return LineKind::Blank;
  if (is_progress_bar(text) || is_trailer(text)) return LineKind::Trailer;
  if (counts_progress(text)) return LineKind::Progress;
  if (is_detail(text)) return LineKind::Detail;
  return LineKind::Plain;
}

}  // namespace pergpu
