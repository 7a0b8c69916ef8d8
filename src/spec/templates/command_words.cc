// The refused characters are those that would mean something to sh; `?`, `[` and `{` are let
// through, because options like `layers=[64,64]` are common and a shell passes them on unchanged
// when no file matches.
#include "spec/templates/command_words.h"

#include <fmt/core.h>

#include <optional>

#include "spec/templates/placeholders.h"

namespace pergpu {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_in(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

/// `$` begins an expansion when a name, digit, brace or special parameter follows.
bool begins_expansion(std::string_view text, std::size_t dollar) {
  if (dollar + 1 >= text.size()) return false;
  char c = text[dollar + 1];
  return is_identifier(std::string_view(&c, 1)) || (c >= '0' && c <= '9') ||
         is_in(c, "{(?@*#$!-'\"");
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> split() {
    while (at_ < text_.size() && !error_) {
      char c = text_[at_];
      if (is_in(c, kSpace)) {
        end_word();
        ++at_;
      } else if (c == '\'') {
        single_quotes();
      } else if (c == '"') {
        double_quotes();
      } else if (c == '\\') {
        backslash();
      } else {
        plain(c);
      }
    }
    end_word();
    if (!error_ && !words_.empty()) check_assignment();
    if (error_) return *std::move(error_);
    return std::move(words_);
  }

 private:
  void fail(std::string message) {
    if (!error_) error_ = Error{ErrorKind::Invalid, 0, std::move(message)};
  }
  void needs_shell(std::string_view what) {
    fail(fmt::format("`{}` needs a shell: write `shell = …`, or put it in single quotes", what));
  }
  void add(char c) {
    if (!in_word_) unquoted_begin_ = true;
    in_word_ = true;
    word_ += c;
  }
  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    if (in_word_ && words_.size() == 1) first_is_plain_ = unquoted_begin_;
    word_.clear();
    in_word_ = false;
    unquoted_begin_ = false;
  }

  void single_quotes() {
    in_word_ = true;
    std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return fail("unclosed '");
    word_ += text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  }

  void double_quotes() {
    in_word_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '`' || (c == '$' && begins_expansion(text_, at_))) {
        needs_shell(c == '`' ? "`" : expansion());
        return;
      }
      if (c == '\\' && at_ + 1 < text_.size() && is_in(text_[at_ + 1], "$`\"\\\n")) {
        ++at_;
        if (text_[at_] == '\n') continue;
        c = text_[at_];
      }
      word_ += c;
    }
    if (at_ >= text_.size()) return fail("unclosed \"");
    ++at_;
  }

  void backslash() {
    if (at_ + 1 >= text_.size()) return fail("\\ at the end of the command");
    if (text_[at_ + 1] != '\n') {
      in_word_ = true;
      word_ += text_[at_ + 1];
    }
    at_ += 2;
  }

  void plain(char c) {
    if (c == '$' && begins_expansion(text_, at_)) return needs_shell(expansion());
    if (c == '~' && !in_word_) return needs_shell("~");
    if (c == '#' && !in_word_) return needs_shell("#");
    if (is_in(c, "|&;<>()`*")) {
      bool twice = at_ + 1 < text_.size() && text_[at_ + 1] == c && is_in(c, "|&<>;");
      return needs_shell(text_.substr(at_, twice ? 2 : 1));
    }
    add(c);
    ++at_;
  }

  /// "$HOME" at the cursor.
  std::string_view expansion() const {
    std::size_t end = at_ + 2;
    while (end < text_.size() && is_identifier(text_.substr(at_ + 1, end - at_))) ++end;
    return text_.substr(at_, end - at_);
  }

  void check_assignment() {
    std::size_t equals = words_[0].find('=');
    if (first_is_plain_ && equals != std::string::npos &&
        is_identifier(std::string_view(words_[0]).substr(0, equals)))
      fail(fmt::format("`{}` before the program needs a shell: write it as `env = {{ {} = … }}`",
                       words_[0], words_[0].substr(0, equals)));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  bool unquoted_begin_ = false;
  bool first_is_plain_ = false;
  std::vector<std::string> words_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view text) {
  return Splitter(text).split();
}

}  // namespace pergpu
