// JSON by the SAX interface of nlohmann/json, which validates but gives no positions.  Between two
// tokens JSON has only white space, commas and colons, so the place of each token follows from the
// end of the one before.
#include <fmt/core.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "spec/readers/readers.h"

namespace pergpu {
namespace {

class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonTreeBuilder(Report& report, std::uint32_t source, std::string_view text, std::size_t offset)
      : report_(report), source_(source), text_(text), offset_(offset) {}

  bool null() override { return scalar(Node::Kind::Null, 0, 0); }
  bool boolean(bool value) override { return scalar(Node::Kind::Bool, value ? 1 : 0, 0); }
  bool number_integer(std::int64_t value) override {
    return scalar(Node::Kind::Int, value, static_cast<double>(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    return scalar(Node::Kind::Int, static_cast<std::int64_t>(std::min(value, kMax)),
                  static_cast<double>(value));
  }
  bool number_float(double value, const std::string& written) override {
    // An integer too large for 64 bits arrives here as well.
    bool integral = written.find_first_of(".eE") == std::string::npos;
    return integral ? scalar(Node::Kind::Int,
                             value < 0 ? std::numeric_limits<std::int64_t>::min()
                                       : std::numeric_limits<std::int64_t>::max(),
                             value)
                    : scalar(Node::Kind::Float, 0, value);
  }
  bool string(std::string& value) override {
    Node node;
    node.kind = Node::Kind::String;
    node.at = next_token();
    node.text = std::move(value);
    return put(std::move(node));
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Node::Kind::Table); }
  bool start_array(std::size_t) override { return open(Node::Kind::List); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Place at = next_token();
    Frame& frame = open_.back();
    Key key{std::move(name), at};
    if (const Place* first = frame.seen.add(frame.node, key)) {
      report_.error(
          at, fmt::format("duplicate key `{}`; first given at line {}", key.text, first->line));
      frame.skip_next = true;
    } else {
      frame.node.keys.push_back(std::move(key));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    std::string_view what = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error …"
    for (std::string_view skip : {"] ", ": "})
      if (std::size_t at = what.find(skip); at != std::string_view::npos)
        what.remove_prefix(at + skip.size());
    std::size_t at = std::min(position > 0 ? position - 1 : 0, text_.size());
    report_.error(report_.place(source_, offset_ + at), fmt::format("not valid JSON: {}", what));
    return false;
  }

  std::optional<Node> take() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    KeySet seen = {};
    bool skip_next = false;  // the value of a duplicate key
  };

  /// The place of the token after `cursor_`; moves `cursor_` past it.
  Place next_token() {
    cursor_ = text_.find_first_not_of(" \t\r\n,:", cursor_);
    std::size_t begin = cursor_;
    char c = text_[cursor_];
    if (c == '"') {
      for (++cursor_; text_[cursor_] != '"'; ++cursor_)
        if (text_[cursor_] == '\\') ++cursor_;
      ++cursor_;
    } else if (c == '{' || c == '}' || c == '[' || c == ']') {
      ++cursor_;
    } else {
      cursor_ = std::min(text_.find_first_of(" \t\r\n,:]}", cursor_), text_.size());
    }
    written_ = text_.substr(begin, cursor_ - begin);
    return report_.place(source_, offset_ + begin);
  }

  bool scalar(Node::Kind kind, std::int64_t integer, double number) {
    Node node;
    node.kind = kind;
    node.at = next_token();
    node.text = written_;
    node.integer = integer;
    node.number = number;
    return put(std::move(node));
  }

  bool open(Node::Kind kind) {
    Frame frame;
    frame.node.kind = kind;
    frame.node.at = next_token();
    if (open_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      report_.error(
          frame.node.at,
          fmt::format("lists and objects are nested more than {} levels deep", kMaxDepth));
      return false;
    }
    open_.push_back(std::move(frame));
    return true;
  }

  bool close() {
    next_token();
    Node node = std::move(open_.back().node);
    open_.pop_back();
    return put(std::move(node));
  }

  bool put(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return true;
    }
    Frame& frame = open_.back();
    if (frame.skip_next) {
      frame.skip_next = false;
    } else {
      frame.node.items.push_back(std::move(node));
    }
    return true;
  }

  Report& report_;
  std::uint32_t source_;
  std::string_view text_;
  std::size_t offset_;
  std::size_t cursor_ = 0;
  std::string_view written_;
  std::vector<Frame> open_;
  std::optional<Node> root_;
};

}  // namespace

std::optional<Node> read_json_value(Report& report, std::uint32_t source, std::string_view text,
                                    std::size_t offset) {
  JsonTreeBuilder builder(report, source, text, offset);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

std::optional<Node> read_json(Report& report, std::uint32_t source) {
  // The source lives in a deque and outlives this call.
  std::string_view text = report.source(source).text();
  std::optional<Node> root = read_json_value(report, source, text, 0);
  if (!root) report.set_incomplete();
  return root;
}

}  // namespace pergpu
