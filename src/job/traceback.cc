// A traceback is read by its form, not by what stands in it: a header, frames, and the first line
// that is indented less than the frames.  Processes that write to one log are told apart by the
// tags of their lines; each has its own reader.
#include "job/traceback.h"

#include <algorithm>
#include <map>

#include "ascii.h"

namespace pergpu {
namespace {

constexpr std::size_t kMostForeign = 5;  // lines of others amid the frames

std::size_t indent_of(std::string_view text) {
  return std::min(text.find_first_not_of(" \t"), text.size());
}

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> fronts) {
  return std::any_of(fronts.begin(), fronts.end(),
                     [&](std::string_view front) { return text.starts_with(front); });
}

bool is_box_line(std::string_view text) {
  return begins_with_any(text, {"│", "╭", "╰", "├", "┌", "└", "|", "+-"});
}

/// The inside of "│ KeyError: 'train'      │".
std::string_view inside_box(std::string_view text) {
  for (const std::string_view edge : {"│", "|"}) {
    if (text.starts_with(edge)) text.remove_prefix(edge.size());
    text = trimmed(text);
    if (text.ends_with(edge)) text.remove_suffix(edge.size());
  }
  return trimmed(text);
}

/// What is printed before a traceback that ends nothing.
bool is_aside(std::string_view text) {
  return begins_with_any(text, {"Exception ignored", "--- Logging error ---", "Error in atexit",
                                "Task exception was never retrieved",
                                "Future exception was never retrieved", "Exception in callback"});
}

bool is_of_logger(std::string_view text) {
  for (const std::string_view level : {"ERROR", "CRITICAL", "FATAL", "WARNING", "[error"}) {
    if (contains(text, level)) return true;
  }
  return false;
}

bool looks_like_an_exception(std::string_view name) {
  return name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Interrupt") ||
         name.ends_with("Exit") || name.ends_with("Group") || name.ends_with("Warning");
}

bool is_group_margin(std::string_view text) {
  const std::string_view inner = text.substr(indent_of(text));
  return indent_of(text) >= 2 && begins_with_any(inner, {"|", "+-", "+ "});
}

std::string without_margin(std::string_view text) {
  std::string_view inner = text.substr(indent_of(text));
  if (inner.starts_with("+")) {
    // "+ Exception Group Traceback …" keeps its header; "+-+------ 1 -----" is a rule.
    return inner.starts_with("+ ") ? std::string(inner.substr(2)) : std::string();
  }
  inner.remove_prefix(1);
  if (inner.starts_with(" ")) inner.remove_prefix(1);
  return std::string(inner);
}

/// "+-+---- 1 ----", "+---- 2 ----": an exception that the group holds follows.
bool is_group_rule(std::string_view text) {
  const std::string_view inner = text.substr(indent_of(text));
  return begins_with_any(inner, {"+-"}) && inner.find_first_of("0123456789") != inner.npos;
}

/// Reads what one process wrote.
class Reader {
 public:
  Reader(const std::vector<LogLine>& lines, std::vector<PythonError>& out)
      : lines_(lines), out_(out) {}

  void read(std::size_t i) {
    const std::string_view text = lines_[i].text;
    if (in_group_ && is_group_margin(text)) {
      group_.push_back({.text = without_margin(text)});
      if (is_group_rule(text)) members_.push_back(group_.size());
      group_last_ = i;
      return;
    }
    if (in_group_) end_group();
    if (contains(text, "+ Exception Group Traceback (most recent call last)"))
      return begin_group(i);
    if (const std::size_t at = text.find(kTracebackHeader); at != text.npos) {
      begin(i, at);
    } else if (is_open_) {
      read_block(i);
    } else {
      read_outside(i);
    }
    if (!trimmed(text).empty()) {
      before_that_ = before_;
      before_ = i;
    }
  }

  void finish() {
    if (in_group_) end_group();
  }

 private:
  std::string_view line_at(std::size_t i) const {
    return i == kNone ? std::string_view() : std::string_view(lines_[i].text);
  }
  std::string_view line_before() const { return line_at(before_); }

  /// What leads to the traceback that begins now.
  void take_prelude(PythonError& error) const {
    const std::string_view second = line_at(before_that_);
    error.link = link_;
    error.is_aside = is_aside(line_before()) ||
                     (second.starts_with("Task exception") && line_before().starts_with("future:"));
    error.is_logged = is_of_logger(line_before());
  }

  void begin(std::size_t i, std::size_t at) {
    const std::string_view text = lines_[i].text;
    const bool is_new_chain = link_ == ChainLink::None;
    PythonError next{.tag = lines_[i].tag, .first = i};
    take_prelude(next);
    // A chain is caught, or not, as a whole.
    if (!is_new_chain && !out_.empty()) {
      next.is_aside = open_.is_aside;
      next.is_logged = open_.is_logged;
    }
    open_ = std::move(next);
    link_ = ChainLink::None;
    is_open_ = true;
    foreign_ = 0;
    frames_at_ = kNone;
    is_boxed_ = is_box_line(text.substr(0, at)) || contains(text.substr(0, at), "─");
    is_past_box_ = false;
    const std::string_view front = trimmed(text.substr(0, at));
    const bool is_notebook = at > front.size() + 1 && exception_name(front) == front;
    notebook_name_ = is_notebook ? std::string(front) : std::string();
  }

  void read_block(std::size_t i) {
    const std::string_view text = lines_[i].text;
    const std::string_view inner = trimmed(text);
    if (inner.empty()) return;
    if (is_boxed_ && is_box_line(text)) {
      is_past_box_ = begins_with_any(text, {"╰", "└", "+-"});
      return;
    }
    if (!notebook_name_.empty()) {
      if (exception_name(text) == notebook_name_) close(i);
      return;
    }
    const bool is_frame = inner.starts_with("File \"") || inner.starts_with("> File \"");
    // loguru points at one of them: "> File".
    if (frames_at_ == kNone && is_frame) frames_at_ = inner.front() == '>' ? 2 : indent_of(text);
    if (is_frame || text.starts_with("> ")) return;
    if (frames_at_ != kNone && indent_of(text) >= frames_at_) return;
    const std::string_view name = exception_name(inner);
    if (name.ends_with("RayTaskError")) {  // the traceback of its task follows
      frames_at_ = kNone;
      return;
    }
    if (!name.empty() && (foreign_ == 0 || looks_like_an_exception(name))) return close(i);
    if (is_boxed_ && !is_past_box_) return;
    if (++foreign_ > kMostForeign) is_open_ = false;
  }

  void close(std::size_t i) {
    const std::string_view inner = trimmed(lines_[i].text);
    open_.name = std::string(exception_name(inner));
    open_.line = std::string(inner);
    open_.last = i;
    out_.push_back(open_);
    is_open_ = false;
    is_rich_group_ = is_boxed_ && open_.name.ends_with("ExceptionGroup");
    is_sub_exception_ = false;
  }

  void read_outside(std::size_t i) {
    const std::string_view text = lines_[i].text;
    const std::string_view inner = trimmed(text);
    if (is_rich_group_) read_rich_group(text);
    if (inner.starts_with("During handling of the above exception")) link_ = ChainLink::During;
    if (inner.starts_with("The above exception was the direct cause")) link_ = ChainLink::Cause;
    // A program that does not compile has no traceback: its place, and what is wrong.
    const bool is_place = indent_of(text) == 2 && inner.starts_with("File \"") &&
                          contains(inner, ", line ") && !contains(inner, ", in ");
    if (!is_place) return;
    begin(i, 0);
    is_boxed_ = false;
    frames_at_ = indent_of(text);
  }

  /// "╭─── Sub-exception #1 ───╮" and its box.
  void read_rich_group(std::string_view text) {
    if (contains(text, "Sub-exception #")) {
      is_sub_exception_ = true;
      return;
    }
    if (!is_sub_exception_) return;
    const std::string_view inner = is_box_line(text) ? inside_box(text) : trimmed(text);
    if (looks_like_an_exception(exception_name(inner))) {
      out_.back().inner.emplace_back(inner);
      is_sub_exception_ = false;
    }
  }

  void begin_group(std::size_t i) {
    group_error_ = PythonError{.tag = lines_[i].tag, .first = i};
    take_prelude(group_error_);
    link_ = ChainLink::None;
    is_open_ = false;
    in_group_ = true;
    group_ = {{.text = std::string(kTracebackHeader) + ":"}};
    members_.clear();
    group_last_ = i;
  }

  /// The first exception inside is the group's own, the others are what it holds.
  void end_group() {
    in_group_ = false;
    const std::vector<PythonError> all = python_errors(group_);
    if (all.empty()) return;
    group_error_.name = all.front().name;
    group_error_.line = all.front().line;
    group_error_.last = group_last_;
    std::map<std::size_t, std::string> held = never_raised(all);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const bool is_followed = i + 1 < all.size() && all[i + 1].link != ChainLink::None;
      if (!is_followed) held.emplace(all[i].last, all[i].line);
    }
    for (const auto& [at, line] : held) {
      if (!exception_name(line).ends_with("ExceptionGroup")) group_error_.inner.push_back(line);
    }
    out_.push_back(group_error_);
  }

  /// Members without a traceback: a line each, where `raised` has nothing.
  std::map<std::size_t, std::string> never_raised(const std::vector<PythonError>& raised) const {
    std::map<std::size_t, std::string> out;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const std::size_t begin = members_[m];
      const std::size_t end = m + 1 < members_.size() ? members_[m + 1] : group_.size();
      const bool was_raised = std::any_of(
          raised.begin(), raised.end(),
          [&](const PythonError& error) { return error.last >= begin && error.last < end; });
      if (was_raised || begin >= end) continue;
      if (!exception_name(group_[begin].text).empty()) out.emplace(begin, group_[begin].text);
    }
    return out;
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const std::vector<LogLine>& lines_;
  std::vector<PythonError>& out_;
  std::size_t before_ = kNone;  // the last lines that are not empty
  std::size_t before_that_ = kNone;
  ChainLink link_ = ChainLink::None;

  bool is_open_ = false;  // between a header and its exception
  PythonError open_ = {};
  std::size_t frames_at_ = kNone;  // their indentation
  std::size_t foreign_ = 0;
  bool is_boxed_ = false;
  bool is_past_box_ = false;
  std::string notebook_name_ = {};  // of IPython, whose header names the exception

  bool in_group_ = false;
  PythonError group_error_ = {};
  std::vector<LogLine> group_ = {};
  std::vector<std::size_t> members_ = {};  // of group_: where each begins
  std::size_t group_last_ = 0;
  bool is_rich_group_ = false;
  bool is_sub_exception_ = false;
};

}  // namespace

std::string_view exception_name(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size()) {
    if (line.substr(at).starts_with("<locals>")) {
      at += std::string_view("<locals>").size();
    } else {
      if (!is_name_start(line[at])) return {};
      while (at < line.size() && is_name_char(line[at])) ++at;
    }
    if (at == line.size() || line[at] != '.') break;
    ++at;
  }
  const std::string_view name = line.substr(0, at);
  if (at == line.size() || line[at] == ':') return name;
  const std::size_t closing = line.find("):", at);  // Ray: "RayTaskError(KeyError): …"
  return line[at] == '(' && closing != line.npos ? name : std::string_view();
}

std::vector<PythonError> python_errors(const std::vector<LogLine>& lines) {
  std::vector<PythonError> out;
  std::map<std::string_view, std::vector<PythonError>> by_tag;
  std::map<std::string_view, Reader> readers;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view tag = lines[i].tag;
    auto reader = readers.find(tag);
    if (reader == readers.end()) reader = readers.emplace(tag, Reader(lines, by_tag[tag])).first;
    reader->second.read(i);
  }
  for (auto& [tag, reader] : readers) reader.finish();
  for (auto& [tag, errors] : by_tag) out.insert(out.end(), errors.begin(), errors.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const PythonError& a, const PythonError& b) { return a.last < b.last; });
  return out;
}

}  // namespace pergpu
