// YAML by the events of yaml-cpp: its tree keeps the first of two equal keys without a word and its
// conversions read 012 as ten.  Here plain scalars are typed by the core schema of YAML 1.2, and
// whatever YAML 1.1 readers (PyYAML among them) would take for something else is an error that says
// how to write it.  Anchors, aliases, tags and merge keys are refused: a sweep has [defaults] and
// [constants] for what they do.
#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <istream>
#include <limits>
#include <streambuf>
#include <string>

#include "spec/readers/readers.h"
#include "spec/readers/yaml_scalar.h"

namespace pergpu {
namespace {

class YamlTreeBuilder : public YAML::EventHandler {
 public:
  YamlTreeBuilder(Report& report, std::uint32_t source) : report_(report), source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      report_.error(place(mark),
                    "a second YAML document begins here; a sweep file must be a single document");
      report_.set_incomplete();
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place at = place(mark);
    Node node;
    node.at = at;
    std::string_view rest = std::string_view(report_.source(source_).text()).substr(offset(mark));
    bool written = rest.substr(0, 1) == "~" || rest.substr(0, 4) == "null" ||
                   rest.substr(0, 4) == "Null" || rest.substr(0, 4) == "NULL";
    // The mark of an absent value is that of the next token, which may be lines further down.
    if (!written && value_expected()) node.at = open_.back().node.keys.back().at;
    node.text = written ? "null" : "";
    check_anchor(anchor, at);
    put(std::move(node), true);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    report_.error(
        place(mark),
        "aliases (*name) are not supported; repeat the value, or use defaults or constants");
    report_.set_incomplete();
    Node node;
    node.at = place(mark);
    put(std::move(node), false);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Place at = place(mark);
    check_anchor(anchor, at);
    check_tag(tag, at);
    // What goes in is UTF-8, but escapes may give half a character.
    if (find_invalid_utf8(value) != std::string::npos)
      report_.error(at, "not valid YAML: an escape in this string isn't a valid character");
    Node node;
    node.kind = Node::Kind::String;
    node.at = at;
    node.text = value;
    bool plain = tag == "?";
    if (plain && value_expected_or_item()) {
      YamlScalar typed = type_of_plain(value);
      node.is_broken = !typed.trap.empty();
      if (node.is_broken) report_.error(at, std::move(typed.trap));
      node.kind = typed.kind;
      node.integer = typed.integer;
      node.number = typed.number;
    }
    put(std::move(node), plain);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::List);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::Table);
  }
  void OnMapEnd() override { close(); }

  int documents() const { return documents_; }
  std::optional<Node> take() { return std::move(root_); }

  /// yaml-cpp counts bytes; -1 marks "nowhere".
  Place place(const YAML::Mark& mark) const {
    if (mark.is_null()) return {source_, 0, 0};
    return report_.place(source_, offset(mark));
  }

 private:
  struct Frame {
    Node node;
    KeySet seen = {};
    bool skip_next = false;  // the value of a key that was refused
  };

  std::size_t offset(const YAML::Mark& mark) const {
    const SourceText& text = report_.source(source_);
    std::size_t line_start = text.line_begin(static_cast<std::uint32_t>(mark.line) + 1);
    return std::min(line_start + static_cast<std::size_t>(mark.column), text.text().size());
  }

  bool value_expected() const {
    if (open_.empty()) return false;
    const Frame& f = open_.back();
    return f.node.is(Node::Kind::Table) && f.node.keys.size() > f.node.items.size() && !f.skip_next;
  }
  bool value_expected_or_item() const {
    if (open_.empty()) return true;
    const Frame& f = open_.back();
    return f.node.is(Node::Kind::List) || f.skip_next || f.node.keys.size() > f.node.items.size();
  }

  void check_anchor(YAML::anchor_t anchor, Place at) {
    if (anchor != 0)
      report_.error(at, "anchors (&name) are not supported; use defaults or constants");
  }
  void check_tag(const std::string& tag, Place at) {
    if (!tag.empty() && tag != "?" && tag != "!")
      report_.error(at, "tags (!name) are not supported; quote a value to make it a string");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    Frame frame;
    frame.node.kind = kind;
    frame.node.at = place(mark);
    check_anchor(anchor, frame.node.at);
    check_tag(tag, frame.node.at);
    // Once: yaml-cpp itself gives up a little deeper.
    if (open_.size() == static_cast<std::size_t>(kMaxDepth))
      report_.error(
          frame.node.at,
          fmt::format("lists and mappings are nested more than {} levels deep", kMaxDepth));
    open_.push_back(std::move(frame));
  }

  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    put(std::move(node), false);
  }

  void put(Node node, bool plain) {
    if (open_.empty()) {
      if (!root_) root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.is(Node::Kind::List)) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.skip_next) {
      frame.skip_next = false;
    } else if (frame.node.keys.size() > frame.node.items.size()) {
      frame.node.items.push_back(std::move(node));
    } else {
      put_key(frame, std::move(node), plain);
    }
  }

  void put_key(Frame& frame, Node node, bool plain) {
    if (!node.is(Node::Kind::String)) {
      report_.error(node.at, "a key must be a string");
      frame.skip_next = true;
      return;
    }
    if (plain && node.text == "<<") {
      report_.error(node.at,
                    "merge keys (<<) are not supported; use defaults for keys that steps share");
      report_.set_incomplete();
      frame.skip_next = true;
      return;
    }
    Key key{std::move(node.text), node.at};
    if (const Place* first = frame.seen.add(frame.node, key)) {
      report_.error(
          key.at, fmt::format("duplicate key `{}`; first given at line {}", key.text, first->line));
      frame.skip_next = true;
      return;
    }
    frame.node.keys.push_back(std::move(key));
  }

  Report& report_;
  std::uint32_t source_;
  int documents_ = 0;
  std::vector<Frame> open_;
  std::optional<Node> root_;
};

/// YAML forbids these, and yaml-cpp makes other bytes of some.
std::size_t find_control_character(std::string_view text) {
  const auto is_one = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  return static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_one) - text.begin());
}

/// Reads from memory without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // a get area is never written to
    setg(begin, begin, begin + text.size());
  }
};

}  // namespace

std::optional<Node> read_yaml(Report& report, std::uint32_t source) {
  const SourceText& text = report.source(source);
  const std::size_t control = find_control_character(text.text());
  if (control < text.text().size()) {
    report.error(report.place(source, control),
                 fmt::format("not valid YAML: control character 0x{:02x}; write it as an escape in "
                             "double quotes",
                             text.text()[control]));
    report.set_incomplete();
    return std::nullopt;
  }
  YamlTreeBuilder builder(report, source);
  ViewBuffer buffer(text.text());
  std::istream in(&buffer);
  try {
    YAML::Parser parser(in);
    // The second one is an error already, and after some texts yaml-cpp finds documents forever.
    while (builder.documents() < 2 && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    report.set_incomplete();
    Place at = builder.place(e.mark);
    std::string_view line = text.line(at.line);
    std::string_view indent = line.substr(0, line.find_first_not_of(" \t"));
    std::size_t tab = indent.find('\t');
    if (tab != std::string_view::npos) {
      at.column = static_cast<std::uint32_t>(tab + 1);
      report.error(at, "not valid YAML: a tab indents this line; YAML allows only spaces");
    } else {
      report.error(at, fmt::format("not valid YAML: {}", e.msg));
    }
    return std::nullopt;
  }
  std::optional<Node> root = builder.take();
  if (!root) {  // only comments
    root.emplace();
    root->kind = Node::Kind::Table;
    root->at = {source, 0, 0};
  }
  return root;
}

}  // namespace pergpu
