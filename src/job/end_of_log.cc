// The order of the questions: the step's rules; then, from the last line upwards, a row of the
// table in what was printed last; then the last exception of Python, if what follows it is little
// enough to belong to it.
#include "job/end_of_log.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>

#include "ascii.h"
#include "job/log_lines.h"
#include "job/quoted.h"
#include "job/traceback.h"
#include "utf8_bytes.h"

namespace pergpu {
namespace {

// How many plain lines may follow words that are still the end.
constexpr int kAfterWords = 5;
constexpr int kAfterMistake = 3;         // no retry follows, so it has to be sure
constexpr int kAfterException = 12;      // quoted as the reason, without deciding the class
constexpr std::size_t kMostLines = 500;  // with all those that are not plain
constexpr int kOfEmptyMessage = 30;      // "ImportError: ", and the message below
constexpr int kMostNotes = 10;           // lines that were added to an exception (PEP 678)

/// It says itself that the program goes on, or that it is no more than a warning.
bool says_handled(std::string_view line) {
  std::string low(line);
  std::transform(low.begin(), low.end(), low.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const std::string_view level : {"warning", "[warning", "warn:", "info", "[info", "debug"}) {
    if (low.starts_with(level)) return true;
  }
  for (const std::string_view words :
       {"retrying", "will retry", "trying again", "trying a ", "falling back", "skipping",
        "skipped", "ignoring", "reducing", "halving", "continuing", "recovered", "not a failure"}) {
    if (contains(low, words)) return true;
  }
  const std::size_t at = low.find("trying ");
  return at != low.npos && at + 7 < low.size() && low[at + 7] >= '0' && low[at + 7] <= '9';
}

/// A list of JAX's devices has no such place: the traceback shows the line of the program, and from
/// Python 3.11 on marks below it.  (Which list another program means, its line does not say.)
bool indexes_devices(const std::vector<LogLine>& lines, std::size_t at) {
  if (!trimmed(lines[at].text).starts_with("IndexError: list index out of range")) return false;
  for (std::size_t above = at; above > 0 && above + 2 > at;) {
    const std::string_view source = lines[--above].text;
    if (contains(source, "jax.devices(") || contains(source, "jax.local_devices(")) return true;
    if (source.find_first_not_of(" ~^") != std::string_view::npos) return false;
  }
  return false;
}

constexpr FailureRow kJaxDevices = {"IndexError: list index out of range", Sign::WrongGpu,
                                    "JAX, in a line with jax.devices( or jax.local_devices("};

/// A program named "python3\r" isn't there: a script's first line, or all its lines, end as Windows
/// has it.  The name may stand in quotes of any language.
bool names_a_return(std::string_view line) {
  for (const std::string_view mark : {"\\r", "^M"}) {
    for (std::size_t at = line.find(mark); at != line.npos; at = line.find(mark, at + 1)) {
      std::string_view after = line.substr(at + mark.size());
      const auto is_quote = [](char c) {
        return c == '\'' || c == '"' || static_cast<unsigned char>(c) >= 0x80;
      };
      while (!after.empty() && is_quote(after.front())) after.remove_prefix(1);
      if (after.starts_with(':')) return true;
    }
  }
  return false;
}

bool says_not_found(std::string_view line) {
  return contains(line, "No such file or directory") || contains(line, "not found") ||
         contains(line, "bad interpreter");
}

constexpr FailureRow kWindowsLines = {"\\r: No such file or directory", Sign::Shell,
                                      "env, bash, dash, busybox"};

const FailureRow* row_of_text(std::string_view line, std::span<const FailureRow> rows) {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const FailureRow& r) { return matches_text(r.words, line); });
  return row == rows.end() ? nullptr : &*row;
}

/// "KeyError: 'Connection refused'": what is missing may be called anything, and the exception says
/// itself what happened.
bool quotes_values(std::string_view name, const FailureRow* own) {
  return name == "ValueError" || name == "AssertionError" || name == "IndexError" ||
         name.starts_with("Unicode") || (own != nullptr && own->sign == Sign::Mistake);
}

const FailureRow* row_of_exception(std::string_view name, std::string_view line) {
  const std::span<const FailureRow> rows = exception_rows();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const FailureRow& r) { return matches_name(r.words, name); });
  const FailureRow* own = found == rows.end() ? nullptr : &*found;
  if (name == "KeyError") return own;
  const FailureRow* by_text = quotes_values(name, own)
                                  ? row_of_text(without_quoted(line), text_rows())
                                  : row_of_text(line, text_rows());
  return by_text != nullptr ? by_text : own;
}

/// Words that others may write, too, are an error's where the line says so, or goes no further:
/// "CUDA kernel: out of memory (5 GiB)", not "GPU ran out of memory story".
bool looks_like_error(std::string_view words, std::string_view line) {
  // JSON and `level=fatal msg="…"` quote what they say.
  const bool is_structured = line.starts_with('{') || contains(line, "=\"");
  const std::string said = is_structured ? std::string(line) : without_quoted(line);
  if (!matches_text(words, said)) return false;
  std::string low = said;
  std::transform(low.begin(), low.end(), low.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const std::string_view sign : {"error", "fail", "fatal", "exception", "abort", "panic",
                                      "unable", "could not", "cannot", "can't", "couldn't"}) {
    if (contains(low, sign)) return true;
  }
  std::string_view last = words.substr(words.rfind('*') + 1);
  if (last.starts_with('^')) last.remove_prefix(1);
  const std::size_t end = said.rfind(last) + last.size();
  const std::string_view after = trimmed(std::string_view(said).substr(end));
  return after.empty() || std::string_view(".,:;!()[]-").find(after.front()) != after.npos;
}

bool is_child(const PythonError& error) {
  const FailureRow* row = row_of_exception(error.name, error.line);
  return row != nullptr && row->sign == Sign::Child;
}

constexpr std::array<std::string_view, 7> kCollateral = {"Connection closed by peer",
                                                         "DistBackendError",
                                                         "NCCL",
                                                         "gloo",
                                                         "TCPStore",
                                                         "Socket Timeout",
                                                         "[Rank "};

/// What the other processes of a distributed program print when one of them has gone.
bool is_collateral(const PythonError& error) {
  return std::any_of(kCollateral.begin(), kCollateral.end(),
                     [&](std::string_view words) { return contains(error.line, words); });
}

/// A program ends itself by these, with its own message; others are sent to it.
bool is_of_its_own(int signal) {
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGTRAP || signal == SIGSYS;
}

/// What came of the machine or of the network stays so when the program wraps it.
bool outlives_wrapping(Sign sign) {
  switch (sign) {
    case Sign::GpuMemory:
    case Sign::HostMemory:
    case Sign::Hardware:
    case Sign::Driver:
    case Sign::DiskFull:
    case Sign::NoProcess:
    case Sign::Outage:
      return true;
    case Sign::WrongGpu:
    case Sign::NoGpu:
    case Sign::Mistake:
    case Sign::Shell:
    case Sign::Child:
    case Sign::Reason:
      return false;
  }
  return false;
}

class EndOfLog {
 public:
  explicit EndOfLog(const LogQuestion& question)
      : question_(question),
        lines_(log_lines(question.log_tail)),
        errors_(python_errors(lines_)),
        kinds_(lines_.size()) {
    for (std::size_t i = 0; i < lines_.size(); ++i) kinds_[i] = kind_of(lines_[i].text);
    for (const PythonError& error : errors_) {
      for (std::size_t i = error.first; i < error.last; ++i) kinds_[i] = LineKind::Detail;
      if (error.is_aside) kinds_[error.last] = LineKind::Trailer;
    }
  }

  std::optional<LogVerdict> verdict() const {
    const PythonError* last = last_error();
    if (std::optional<LogVerdict> said = by_words(last)) return said;
    if (last == nullptr) return by_usage();
    return by_error(*last);
  }

 private:
  /// Of the lines after `at`: how many are plain, up to one that shows that the program went on.
  struct Follows {
    int plain = 0;
    bool went_on = false;
  };

  Follows follows(const PythonError& error, std::size_t until) const {
    Follows out;
    // PyTorch puts its rank before each line of what nothing has caught.
    const bool is_uncaught = error.tag.starts_with("[rank") || error.tag.starts_with("rank");
    for (std::size_t i = error.last + 1; i < until; ++i) {
      const bool is_of_another =
          !error.tag.empty() && !lines_[i].tag.empty() && lines_[i].tag != error.tag;
      if (is_of_another) continue;
      if (kinds_[i] == LineKind::Plain) ++out.plain;
      if (kinds_[i] == LineKind::Progress && !is_uncaught) out.went_on = true;
    }
    return out;
  }

  bool is_at_end(const PythonError& error, int limit) const {
    const Follows after = follows(error, lines_.size());
    if (has_message_below(error)) limit = std::max(limit, kOfEmptyMessage);
    if (after.went_on) return false;
    return after.plain <= limit || (after.plain <= kMostNotes && has_notes_below(error));
  }

  /// All that follows stands right below it, and looks like notes: no line twice, none that says
  /// that the program went on.  Python ends with 1 for an exception that nothing has caught.
  bool has_notes_below(const PythonError& error) const {
    if (question_.exit_code != 1 || error.is_logged || !error.inner.empty()) return false;
    std::size_t end = error.last + 1;
    std::set<std::string_view> notes;
    for (; end < lines_.size() && kinds_[end] == LineKind::Plain; ++end) {
      const std::string_view text = lines_[end].text;
      if (lines_[end].tag != error.tag || says_handled(text)) return false;
      if (!notes.insert(text).second) return false;
    }
    return std::none_of(kinds_.begin() + static_cast<std::ptrdiff_t>(end), kinds_.end(),
                        [](LineKind kind) { return kind == LineKind::Plain; });
  }

  static bool has_message_below(const PythonError& error) {
    return error.line.size() <= error.name.size() + 2;
  }

  /// The exception by which it ended, as far as Python prints it.
  const PythonError* last_error() const {
    for (auto error = errors_.rbegin(); error != errors_.rend(); ++error) {
      if (error->is_aside) continue;
      if (!is_at_end(*error, kAfterException)) return nullptr;
      return &*error;
    }
    return nullptr;
  }

  bool is_missing_program() const {
    return question_.exit_code == 126 || question_.exit_code == 127;
  }

  /// Words are looked for in what is printed last, below the last exception.
  std::optional<LogVerdict> by_words(const PythonError* last) const {
    int plain = 0;
    for (std::size_t i = lines_.size();
         i-- > (last ? last->last + 1 : 0) && plain <= kAfterWords;) {
      if (lines_.size() - i > kMostLines) break;
      if (kinds_[i] == LineKind::Progress) break;
      const FailureRow* row = row_of_line(i);
      // Words that name no cause are those of the end only where no others follow.
      const bool is_vague = row != nullptr && row->sign == Sign::Reason;
      if (row != nullptr && (!is_vague || (plain <= 1 && last == nullptr))) {
        return judged(row, with_message(i), plain <= kAfterMistake);
      }
      if (kinds_[i] == LineKind::Plain && !is_of_stack(i)) ++plain;
    }
    return std::nullopt;
  }

  /// "Error in f() :", and the message below.
  std::string with_message(std::size_t i) const {
    std::string out(trimmed(lines_[i].text));
    if (!out.ends_with(':') || i + 1 == lines_.size()) return out;
    return out + " " + std::string(trimmed(lines_[i + 1].text));
  }

  /// Go: the line of a function stands above the one of its place.
  bool is_of_stack(std::size_t i) const {
    return i + 1 < lines_.size() && lines_[i + 1].text.starts_with("\t");
  }

  const FailureRow* row_of_line(std::size_t i) const {
    const std::string_view line = lines_[i].text;
    switch (kinds_[i]) {
      case LineKind::Trailer:
        if (!line.starts_with("slurmstepd:") && !line.starts_with("srun:")) return nullptr;
        break;
      case LineKind::Detail:
        if (is_in_traceback(i)) return nullptr;
        break;
      case LineKind::Plain:
        break;
      case LineKind::Progress:
      case LineKind::Blank:
        return nullptr;
    }
    if (says_handled(line) || is_matlab_frame(line)) return nullptr;
    if (indexes_devices(lines_, i)) return &kJaxDevices;
    if (names_a_return(line) && (is_missing_program() || says_not_found(line))) {
      return &kWindowsLines;
    }
    const FailureRow* row = row_of_text(line, text_rows());
    // A file server that doesn't answer has the program: another start may find it.
    const bool is_of_machine = row != nullptr && outlives_wrapping(row->sign);
    if (is_missing_program() && !is_of_machine) {
      if (const FailureRow* shell = row_of_text(trimmed(line), shell_rows())) return shell;
    }
    if (row != nullptr && row->is_common && !looks_like_error(row->words, line)) return nullptr;
    return row != nullptr && row->sign != Sign::Child ? row : nullptr;
  }

  bool is_in_traceback(std::size_t i) const {
    return std::any_of(errors_.begin(), errors_.end(), [&](const PythonError& error) {
      return i >= error.first && i < error.last;
    });
  }

  std::optional<LogVerdict> by_error(const PythonError& last) const {
    const PythonError* error = &last;
    if (is_child(last) || (is_collateral(last) && !last.tag.empty())) {
      if (const PythonError* child = child_of(last)) error = child;
    }
    if (indexes_devices(lines_, error->last)) return verdict_of(kJaxDevices, error->line);
    const Found found = row_of(*error);
    std::string line = words_of(*error);
    if (found.from != nullptr) line += " (from " + found.from->line + ")";
    const FailureRow* row = is_at_end(last, kAfterWords) ? found.row : nullptr;
    return judged(row, line, is_at_end(last, last.is_logged ? 0 : kAfterMistake));
  }

  /// `is_sure`: nothing speaks against its being the end.
  LogVerdict judged(const FailureRow* row, std::string_view line, bool is_sure) const {
    const bool may_be_mistake =
        question_.is_quick && is_sure && (!question_.signal || is_of_its_own(*question_.signal));
    if (row != nullptr && (row->sign != Sign::Mistake || may_be_mistake)) {
      LogVerdict out = verdict_of(*row, line);
      if (!out.cls) out.cls = by_make();
      return out;
    }
    return LogVerdict{.cls = by_make(), .line = quotable(line), .row = row};
  }

  /// make exits with 2, whatever its program said.
  std::optional<OutcomeClass> by_make() const {
    if (question_.exit_code != 2 || lines_.empty()) return std::nullopt;
    const bool is_make =
        lines_.back().text.starts_with("make") && contains(lines_.back().text, "***");
    return is_make ? std::optional(OutcomeClass::Exit) : std::nullopt;
  }

  struct Found {
    const FailureRow* row = nullptr;
    const PythonError* from = nullptr;  // the earlier exception of its chain that has the row
  };

  /// Its own row, else that of what it was raised from.
  Found row_of(const PythonError& error) const {
    const FailureRow* row =
        error.inner.empty() ? row_of_exception(error.name, error.line) : row_of_group(error);
    if (row != nullptr && row->sign != Sign::Mistake && row->sign != Sign::Child) return {row};
    bool is_cause = true;
    for (const PythonError* at = &error; at->link != ChainLink::None;) {
      is_cause = is_cause && at->link == ChainLink::Cause;
      at = before(*at);
      if (at == nullptr) break;
      const FailureRow* earlier = row_of_exception(at->name, at->line);
      if (earlier == nullptr || !outlives_wrapping(earlier->sign)) continue;
      // A mistake in what was done about an outage: the outage may be over at the next try.
      const bool counts = row == nullptr ? is_cause : earlier->sign == Sign::Outage;
      if (counts) return {earlier, at};
    }
    return {row};
  }

  /// All must be mistakes for it to be one; else what is not a mistake decides.
  static const FailureRow* row_of_group(const PythonError& error) {
    const FailureRow* mistake = nullptr;
    bool has_unknown = false;
    for (const std::string& line : error.inner) {
      const FailureRow* row = row_of_exception(exception_name(line), line);
      if (row == nullptr) {
        has_unknown = true;
      } else if (row->sign == Sign::Mistake) {
        mistake = row;
      } else {
        return row;
      }
    }
    return has_unknown ? nullptr : mistake;
  }

  /// Of the same process.
  const PythonError* before(const PythonError& error) const {
    const PythonError* found = nullptr;
    for (const PythonError& other : errors_) {
      if (other.last >= error.first) break;
      if (other.tag == error.tag) found = &other;
    }
    return found;
  }

  /// The failure that a launcher reports: of the rank that it names, else the last one above that
  /// is not a consequence.
  const PythonError* child_of(const PythonError& parent) const {
    const std::string rank = root_cause_rank(parent);
    const PythonError* found = nullptr;
    const PythonError* root = nullptr;
    for (const PythonError& error : errors_) {
      if (error.last >= parent.first) break;
      if (is_child(error)) found = root = nullptr;  // of an earlier launch
      const Follows after = follows(error, parent.first);
      const bool is_near = after.plain <= kOfEmptyMessage && !after.went_on;
      if (error.is_aside || is_child(error) || !is_near) continue;
      if (!rank.empty() && (error.tag == "[rank" + rank || error.tag == "[default" + rank)) {
        root = &error;
      }
      if (found == nullptr || !is_collateral(error) || is_collateral(*found)) found = &error;
    }
    return root != nullptr ? root : found;
  }

  /// "1]:" of "rank : 1 (local_rank: 1)" below "Root Cause"; empty: not named.
  std::string root_cause_rank(const PythonError& parent) const {
    bool is_below = false;
    for (std::size_t i = parent.last; i < lines_.size(); ++i) {
      const std::string_view line = trimmed(lines_[i].text);
      is_below = is_below || line.starts_with("Root Cause");
      if (!is_below || !line.starts_with("rank")) continue;
      const std::size_t at = line.find_first_of("0123456789");
      if (at == line.npos) return {};
      return std::string(line.substr(at, line.find_first_not_of("0123456789", at) - at)) + "]:";
    }
    return {};
  }

  /// With what makes it plain: what a group holds, the message that begins on the next line.
  std::string words_of(const PythonError& error) const {
    std::string out = error.line;
    for (const std::string& inner : error.inner) {
      out += &inner == &error.inner.front() ? ": " : "; ";
      out += inner;
    }
    if (!error.inner.empty() || !out.ends_with(':')) {
      if (!has_message_below(error) || error.line.find(':') == std::string::npos) return out;
    }
    std::string_view below;
    for (std::size_t i = error.last + 1; i < lines_.size() && i < error.last + 30; ++i) {
      const std::string_view text = trimmed(lines_[i].text);
      if (text.empty() || lines_[i].tag != error.tag) continue;
      const std::string_view name = exception_name(text);
      if (name.ends_with("Error") || name.ends_with("Exception")) {
        below = text;
        break;
      }
      if (below.empty() && kinds_[i] != LineKind::Trailer) below = text;
    }
    if (below.empty()) return out;
    return std::string(trimmed(out)) + " " + std::string(below);
  }

  /// Exit code 2: what the program has to say about how it was called.
  std::optional<LogVerdict> by_usage() const {
    if (question_.exit_code != 2) return std::nullopt;
    int plain = 0;
    for (std::size_t i = lines_.size(); i-- > 0 && plain <= kAfterWords;) {
      const std::string_view line = lines_[i].text;
      if (kinds_[i] == LineKind::Trailer) continue;
      if (contains(line, "error:") || contains(line, "Error:") ||
          contains(line, "can't open file")) {
        return LogVerdict{.line = quotable(line)};
      }
      if (kinds_[i] == LineKind::Plain) ++plain;
    }
    return std::nullopt;
  }

  static LogVerdict verdict_of(const FailureRow& row, std::string_view line) {
    LogVerdict out{.line = quotable(line), .row = &row};
    switch (row.sign) {
      case Sign::GpuMemory:
        out.cls = OutcomeClass::OomGpu;
        break;
      case Sign::HostMemory:
        out.cls = OutcomeClass::OomHost;
        break;
      case Sign::Hardware:
        out.cls = OutcomeClass::Hardware;
        break;
      case Sign::Driver:
        out.cls = OutcomeClass::Driver;
        break;
      case Sign::DiskFull:
        out.cls = OutcomeClass::DiskFull;
        break;
      case Sign::NoProcess:
        out.cls = OutcomeClass::Lost;
        out.meaning = kNoProcess;
        break;
      case Sign::WrongGpu:
        out.cls = OutcomeClass::UserError;
        out.meaning = kNotItsGpu;
        break;
      case Sign::Mistake:
        out.cls = OutcomeClass::UserError;
        break;
      case Sign::Shell:
        out.cls = OutcomeClass::UserError;
        if (contains(line, "source: not found")) out.meaning = kNoSource;
        if (&row == &kWindowsLines) out.meaning = kWindowsMeaning;
        break;
      case Sign::Outage:
        out.cls = OutcomeClass::Exit;
        break;
      case Sign::NoGpu:  // what it was given decides
      case Sign::Child:
      case Sign::Reason:
        break;
    }
    return out;
  }

  static constexpr std::string_view kWindowsMeaning =
      "the script has Windows line endings; convert it with dos2unix";
  static constexpr std::string_view kNoProcess =
      "the machine couldn't start another process or thread";
  static constexpr std::string_view kNoSource =
      "sh has no `source`: write `. venv/bin/activate`, or `bash -c '…'`";

  const LogQuestion& question_;
  const std::vector<LogLine> lines_;
  const std::vector<PythonError> errors_;
  std::vector<LineKind> kinds_;
};

std::optional<LogVerdict> by_own_rule(const LogQuestion& question) {
  if (question.own.empty()) return std::nullopt;
  std::string_view text = question.log_tail;
  while (!text.empty()) {
    if (text.back() == '\n') text.remove_suffix(1);
    const std::size_t before = text.rfind('\n');
    const std::string_view line = before == text.npos ? text : text.substr(before + 1);
    const std::string plain = without_escapes(line);
    for (const FailureRule& rule : question.own) {
      if (!contains(line, rule.match) && !contains(plain, rule.match)) continue;
      return LogVerdict{.cls = rule.cls, .line = quotable(plain), .is_own = true};
    }
    text.remove_suffix(line.size());
  }
  return std::nullopt;
}

}  // namespace

std::string quotable(std::string_view line) {
  constexpr std::size_t kLongest = 200;
  std::string out(trimmed(line));
  std::erase_if(out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return abbreviated(out, kLongest);
}

std::optional<LogVerdict> read_end_of_log(const LogQuestion& question) {
  if (std::optional<LogVerdict> own = by_own_rule(question)) return own;
  return EndOfLog(question).verdict();
}

bool says_nothing(std::string_view log_tail) {
  const std::vector<LogLine> lines = log_lines(log_tail);
  return std::none_of(lines.begin(), lines.end(), [](const LogLine& line) {
    const LineKind kind = kind_of(line.text);
    return kind != LineKind::Blank && kind != LineKind::Trailer;
  });
}

}  // namespace pergpu
