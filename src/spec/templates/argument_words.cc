// Names are joined with dots, as argparse-like programs and Hydra take nested values.
#include "spec/templates/argument_words.h"

#include <utility>

#include "spec/text/json_members.h"

namespace pergpu {
namespace {

class ArgumentWords {
 public:
  explicit ArgumentWords(ArgumentStyle style) : style_(style) {}

  /// `texts`: those of the members as written; null within a table.
  Result<void> add_members(const std::string& prefix, std::string_view json,
                           const RunParameters* texts) {
    Result<void> good;
    Result<void> read = visit_members(json, [&](std::string&& name, std::string_view value) {
      const std::string* text = texts == nullptr ? nullptr : texts->text(name);
      Result<void> added = add(prefix + name, value, text);
      if (!added && good) good = std::move(added);
    });
    return read ? std::move(good) : std::move(read);
  }

  std::vector<std::string> take() { return std::move(words_); }

 private:
  Result<void> add(const std::string& name, std::string_view json, const std::string* text) {
    if (json.front() == '{' && json != "{}") return add_members(name + ".", json, nullptr);
    const bool is_option = style_ == ArgumentStyle::Options;
    if (json == "null" && is_option) return {};
    std::string word = (is_option ? "--" : "") + name + "=";
    if (text != nullptr) {
      word += *text;
    } else {
      word += json.front() == '"' ? decode_json_string(json) : std::string(json);
    }
    words_.push_back(std::move(word));
    return {};
  }

  ArgumentStyle style_;
  std::vector<std::string> words_;
};

}  // namespace

Result<std::vector<std::string>> argument_words(std::string_view json,
                                                const RunParameters& parameters,
                                                ArgumentStyle style) {
  ArgumentWords words(style);
  if (Result<void> added = words.add_members("", json, &parameters); !added)
    return std::move(added).error();
  return words.take();
}

}  // namespace pergpu
