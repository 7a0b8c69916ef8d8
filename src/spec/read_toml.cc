// TOML by toml++, whose tables are sorted by key: the order of the file comes back from the
// position of each key, the text as written from the region of each value.
//
// toml++ stops at its first error.  To report all of them the refused statement is blanked out and
// the text is parsed again: duplicate keys, for instance, are all found in one run of pergpu.
#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "spec/readers.h"
#include "spec/toml_statements.h"

namespace pergpu {
namespace {

constexpr int kMaxSyntaxErrors = 20;
/// Larger files are parsed once: parsing again for each error would take too long.
constexpr std::size_t kMaxBytesToRecover = std::size_t{1} << 20;

class Converter {
 public:
  Converter(Report& report, std::uint32_t source)
      : report_(report), text_(report.source(source)), source_(source) {}

  Node convert(const toml::node& node, int depth) {
    Node out;
    out.at = place(node.source().begin);
    if (depth > kMaxDepth) {
      report_.error(out.at, fmt::format("lists and tables are nested deeper than {}", kMaxDepth));
      return out;
    }
    switch (node.type()) {
      case toml::node_type::table:
        convert_table(*node.as_table(), out, depth);
        break;
      case toml::node_type::array:
        out.kind = Node::Kind::List;
        for (const toml::node& item : *node.as_array())
          out.items.push_back(convert(item, depth + 1));
        break;
      case toml::node_type::string:
        out.kind = Node::Kind::String;
        out.text = node.as_string()->get();
        break;
      case toml::node_type::integer:
        out.kind = Node::Kind::Int;
        out.integer = node.as_integer()->get();
        out.number = static_cast<double>(out.integer);
        out.text = written(node);
        break;
      case toml::node_type::floating_point:
        out.kind = Node::Kind::Float;
        out.number = node.as_floating_point()->get();
        out.text = written(node);
        break;
      case toml::node_type::boolean:
        out.kind = Node::Kind::Bool;
        out.integer = node.as_boolean()->get() ? 1 : 0;
        out.text = written(node);
        break;
      case toml::node_type::date:
      case toml::node_type::time:
      case toml::node_type::date_time:
        // JSON has no dates, so a date is the text that was written.
        out.kind = Node::Kind::String;
        out.text = written(node);
        break;
      case toml::node_type::none:
        break;
    }
    return out;
  }

 private:
  Place place(const toml::source_position& p) const {
    return {source_, static_cast<std::uint32_t>(p.line), static_cast<std::uint32_t>(p.column)};
  }

  std::string written(const toml::node& node) const {
    const toml::source_region& r = node.source();
    std::size_t begin = text_.offset(r.begin.line, r.begin.column);
    std::size_t end = text_.offset(r.end.line, r.end.column);
    return text_.text().substr(begin, end - begin);
  }

  void convert_table(const toml::table& table, Node& out, int depth) {
    out.kind = Node::Kind::Table;
    struct Member {
      const toml::key* key;
      const toml::node* value;
    };
    std::vector<Member> members;
    members.reserve(table.size());
    for (auto it = table.begin(); it != table.end(); ++it)
      members.push_back({&it->first, &it->second});
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
      const toml::source_position& p = a.key->source().begin;
      const toml::source_position& q = b.key->source().begin;
      return std::pair(p.line, p.column) < std::pair(q.line, q.column);
    });
    for (const Member& m : members) {
      out.keys.push_back({std::string(m.key->str()), place(m.key->source().begin)});
      out.items.push_back(convert(*m.value, depth + 1));
    }
  }

  Report& report_;
  const SourceText& text_;
  std::uint32_t source_;
};

/// A statement that was refused, kept until the tree exists in which its first twin can be found.
struct Duplicate {
  Place at = {};
  std::vector<std::string> path = {};  // keys from the root
  bool is_table = false;
};

/// The keys that lead to the only leaf of `table`; empty when there are several.
std::vector<std::string> only_path(const toml::table& table) {
  std::vector<std::string> path;
  const toml::node* node = &table;
  while (true) {
    const toml::array* list = node->as_array();
    if (list != nullptr && list->is_array_of_tables() && list->size() == 1) node = list->get(0);
    const toml::table* inner = node->as_table();
    if (inner == nullptr || inner->empty()) return path;
    if (inner->size() != 1) return {};
    path.emplace_back(inner->begin()->first.str());
    node = &inner->begin()->second;
  }
}

/// Offset of the first `=` outside of quotes, or npos.
std::size_t find_equals(std::string_view statement) {
  char quote = 0;
  for (std::size_t i = 0; i < statement.size(); ++i) {
    char c = statement[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '=') {
      return i;
    }
  }
  return std::string_view::npos;
}

void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (text[i] != '\n') text[i] = ' ';
}

class Recovery {
 public:
  Recovery(Report& report, std::uint32_t source)
      : report_(report), source_(source), text_(report.source(source).text()) {}

  std::optional<Node> read() {
    for (int round = 0; round < kMaxSyntaxErrors; ++round) {
      try {
        toml::table table = toml::parse(std::string_view(text_));
        Node root = Converter(report_, source_).convert(table, 0);
        for (const Duplicate& d : duplicates_) report_duplicate(d, root);
        return root;
      } catch (const toml::parse_error& e) {
        if (!step_over(e)) break;
      }
    }
    report_.set_incomplete();
    for (const Duplicate& d : duplicates_) report_duplicate(d, Node());
    return std::nullopt;
  }

 private:
  /// Reports `e` and blanks its statement; false when the rest cannot be read.
  bool step_over(const toml::parse_error& e) {
    const toml::source_position& p = e.source().begin;
    Place at{source_, static_cast<std::uint32_t>(p.line), static_cast<std::uint32_t>(p.column)};
    const SourceText& source = report_.source(source_);
    std::size_t offset = source.offset(at.line, at.column);
    std::vector<TomlStatement> all = toml_statements(text_);
    // The parser often looks one character ahead, over the newline: hence the search backwards.
    auto s = std::find_if(all.rbegin(), all.rend(), [&](const TomlStatement& candidate) {
      return candidate.begin <= offset;
    });
    std::string_view what = e.description();
    bool duplicate = what.find("cannot redefine existing") != std::string_view::npos;
    bool remembered = duplicate && s != all.rend() && remember_duplicate(*s);
    if (!remembered) report_syntax(at, what, offset);
    if (!duplicate || !remembered || s->is_header) report_.set_incomplete();
    if (s == all.rend() || text_.size() > kMaxBytesToRecover) return false;
    std::size_t end = s->end;
    if (s->is_header) {
      // What follows belongs to the refused table: read as part of the one before, it would only
      // give further, wrong errors.
      auto next = std::find_if(s.base(), all.end(),
                               [](const TomlStatement& later) { return later.is_header; });
      end = next == all.end() ? text_.size() : next->begin;
    } else if (!s->closed) {
      std::size_t line_begin = source.offset(at.line, 1);
      end = line_begin > s->begin ? line_begin : source.offset(at.line + 1, 1);
    }
    bool anything = std::any_of(text_.begin() + static_cast<std::ptrdiff_t>(s->begin),
                                text_.begin() + static_cast<std::ptrdiff_t>(end),
                                [](char c) { return c != ' ' && c != '\n'; });
    blank(text_, s->begin, end);
    return anything;
  }

  /// toml++ says what its grammar expected; where another mistake is likelier, that is said
  /// instead.
  void report_syntax(Place at, std::string_view what, std::size_t offset) {
    auto has = [&](std::string_view part) { return what.find(part) != std::string_view::npos; };
    bool at_line_end = offset >= text_.size() || text_[offset] == '\n' || text_[offset] == '\r';
    if (has("cannot redefine existing")) {
      std::size_t open = what.find('\'');
      std::size_t close = what.rfind('\'');
      report_.error(at, fmt::format("duplicate key `{}`", what.substr(open + 1, close - open - 1)));
      return;
    }
    if (has("parsing string: unescaped control characters") && at_line_end) {
      report_.error(at, "not valid TOML: this text is not closed on its line");
      return;
    }
    std::string_view prefix = "Error while parsing ";
    std::string message(what.substr(0, prefix.size()) == prefix ? what.substr(prefix.size())
                                                                : what);
    std::string hint;
    if (has("could not determine value type") || has("parsing boolean"))
      hint = "; a text needs quotes, true and false have none";
    if (has("integer: expected digit") || has("floating-point: expected"))
      hint = "; a value with a unit needs quotes: \"12h\", \"64GiB\"";
    report_.error(at, fmt::format("not valid TOML: {}{}", message, hint));
  }

  /// False when the duplicate lies within the statement (an inline table).
  bool remember_duplicate(const TomlStatement& s) {
    std::string_view statement = std::string_view(text_).substr(s.begin, s.end - s.begin);
    Duplicate d;
    d.is_table = s.is_header;
    std::string document;
    if (s.is_header) {
      document = statement;
    } else {
      std::vector<TomlStatement> all = toml_statements(text_);
      for (const TomlStatement& other : all)
        if (other.is_header && other.begin < s.begin)
          document = text_.substr(other.begin, other.end - other.begin);
      std::size_t equals = find_equals(statement);
      if (equals == std::string_view::npos) return false;
      document += fmt::format("\n{}= 0\n", statement.substr(0, equals));
    }
    try {
      d.path = only_path(toml::parse(std::string_view(document)));
      if (!s.is_header) {
        // Does it clash with itself (an inline table with a key twice)?
        (void)toml::parse(statement);
      }
    } catch (const toml::parse_error&) {
      return false;
    }
    if (d.path.empty()) return false;
    std::size_t first = text_.find_first_not_of(s.is_header ? " \t\r\n[" : " \t\r\n", s.begin);
    d.at = report_.place(source_, first);
    duplicates_.push_back(std::move(d));
    return true;
  }

  /// The last element of a list of tables that begins before the duplicate is its table.
  void report_duplicate(const Duplicate& d, const Node& root) {
    const Node* node = &root;
    Place first;
    for (const std::string& name : d.path) {
      if (node == nullptr) break;
      if (node->is(Node::Kind::List)) {
        const Node* last = nullptr;
        for (const Node& item : node->items)
          if (item.at.line <= d.at.line) last = &item;
        node = last;
        if (node == nullptr) break;
      }
      auto key = std::find_if(node->keys.begin(), node->keys.end(),
                              [&](const Key& k) { return k.text == name; });
      if (key == node->keys.end()) {
        first = {};
        break;
      }
      first = key->at;
      node = &node->items[static_cast<std::size_t>(key - node->keys.begin())];
    }
    std::string dotted = std::accumulate(
        d.path.begin(), d.path.end(), std::string(),
        [](const std::string& a, const std::string& b) { return a.empty() ? b : a + "." + b; });
    std::string name =
        d.is_table ? fmt::format("table [{}]", dotted) : fmt::format("key `{}`", d.path.back());
    std::string where =
        first.line > 0 ? fmt::format("; it is already given at line {}", first.line) : "";
    report_.error(d.at, fmt::format("duplicate {}{}", name, where));
  }

  Report& report_;
  std::uint32_t source_;
  std::string text_;  // with the refused statements blanked out
  std::vector<Duplicate> duplicates_;
};

}  // namespace

std::optional<Node> read_toml(Report& report, std::uint32_t source) {
  return Recovery(report, source).read();
}

std::optional<Node> read_toml_value(std::string_view text, Place at) {
  Report scratch;
  std::string document = fmt::format("value = {}", text);
  std::uint32_t source = scratch.add_source("", document);
  try {
    toml::table table = toml::parse(std::string_view(document));
    if (table.size() != 1) return std::nullopt;  // VALUE had a newline and went on
    Node root = Converter(scratch, source).convert(table, 0);
    if (scratch.failed()) return std::nullopt;
    std::vector<Node*> open = {&root};
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      node->at = at;
      for (Key& key : node->keys) key.at = at;
      for (Node& item : node->items) open.push_back(&item);
    }
    return std::move(root.items[0]);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace pergpu
