// The words become the tree that a file with the same meaning would give, and go through the same
// checks.  Each option and word is its own source, so that a message can name it.
#include "spec/schema/command_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "spec/readers/readers.h"
#include "spec/runs/word_list.h"
#include "spec/schema/overrides.h"
#include "spec/schema/schema.h"
#include "spec/sweep/sweep_name.h"
#include "spec/templates/placeholders.h"
#include "spec/text/number_text.h"
#include "spec/tree/report.h"

namespace pergpu {
namespace {

Node text_node(std::string text, Place at) {
  Node node;
  node.kind = Node::Kind::String;
  node.at = at;
  node.text = std::move(text);
  return node;
}

Node table_node(Place at) {
  Node node;
  node.kind = Node::Kind::Table;
  node.at = at;
  return node;
}

/// A number may begin with its point, as in `.5`.
Node number_node(const std::string& value, Place at) {
  const Node with_zero = number_or_text("0" + value, at);
  const bool is_number = value.starts_with('.') && with_zero.is(Node::Kind::Float);
  return is_number ? with_zero : number_or_text(value, at);
}

void put(Node& table, std::string key, Node value) {
  table.keys.push_back({std::move(key), value.at});
  table.items.push_back(std::move(value));
}

class CommandLineBuilder {
 public:
  CommandLineBuilder(Report& report, const CommandLineOptions& options,
                     const std::vector<std::string>& words)
      : report_(report), options_(options), words_(words) {}

  Node build() {
    root_ = table_node(place("the command line"));
    split();
    named_lists();
    put_options();
    positional_lists();
    put_command();
    return std::move(root_);
  }

 private:
  /// The values after one `:::`; those after `:::+` go in step with the list before.
  struct List {
    bool linked = false;
    std::vector<Node> values = {};
  };

  Place place(const std::string& name) { return {report_.add_source(name, ""), 0, 0}; }

  void split() {
    bool in_command = true;
    for (const std::string& word : words_) {
      if (word == ":::" || word == ":::+") {
        bool linked = word == ":::+";
        if (linked && lists_.empty())
          report_.error(place(word),
                        "`:::+` pairs with the list before it, but there is no list before it");
        in_command = false;
        lists_.push_back({.linked = linked && !lists_.empty()});
      } else if (word == "::::" || word == "::::+") {
        report_.error(place(word),
                      "lists from files aren't supported here; write `::: $(cat FILE)`, or use a "
                      "sweep file with runs_from");
        in_command = false;
        lists_.push_back({});
        lists_.back().values.push_back(text_node("", root_.at));
      } else if (in_command) {
        command_.push_back(word);
      } else {
        lists_.back().values.push_back(typed_text(word, place(fmt::format("value {}", word))));
      }
    }
    for (const List& list : lists_)
      if (list.values.empty()) report_.error(root_.at, "no values after `:::`");
  }

  void named_lists() {
    grid_ = table_node(root_.at);
    for (const std::string& option : options_.lists) {
      Place at = place(fmt::format("-g {}", option));
      std::size_t equals = option.find('=');
      std::string name = option.substr(0, equals);
      if (equals == std::string::npos || !is_identifier(name)) {
        report_.error(at, "-g expects NAME=V1,V2, where NAME is a parameter name");
        continue;
      }
      if (grid_.find(name) != nullptr) {
        report_.error(at, fmt::format("-g {} is given twice", name));
        continue;
      }
      std::string_view text = std::string_view(option).substr(equals + 1);
      if (std::optional<Node> list = read_word_list(report_, name, text, at))
        put(grid_, name, *std::move(list));
    }
  }

  static std::string positional(std::size_t i) { return fmt::format("arg{}", i + 1); }

  /// Without `:::+` the lists join [grid], after the named ones; with it their rows are written
  /// out.
  void positional_lists() {
    bool linked = std::any_of(lists_.begin(), lists_.end(), [](const List& l) { return l.linked; });
    if (linked) {
      put_rows();
    } else {
      for (std::size_t i = 0; i < lists_.size(); ++i) {
        Node list;
        list.kind = Node::Kind::List;
        list.at = root_.at;
        list.items = lists_[i].values;
        put(grid_, positional(i), std::move(list));
      }
    }
    if (!grid_.keys.empty()) put(root_, "grid", std::move(grid_));
  }

  void put_rows() {
    struct Group {
      std::size_t first = 0;
      std::size_t count = 0;  // of lists
      std::size_t rows = 0;
    };
    std::vector<Group> groups;
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (!lists_[i].linked) groups.push_back({.first = i, .rows = lists_[i].values.size()});
      ++groups.back().count;
      if (lists_[i].values.size() != groups.back().rows)
        report_.error(root_.at, fmt::format("`:::+` has {} values, but the list before it has {}",
                                            lists_[i].values.size(), groups.back().rows));
    }
    if (report_.failed()) return;
    Node rows;
    rows.kind = Node::Kind::List;
    rows.at = root_.at;
    std::vector<std::size_t> at(groups.size(), 0);
    while (true) {
      Node row = table_node(root_.at);
      for (std::size_t g = 0; g < groups.size(); ++g)
        for (std::size_t i = groups[g].first; i < groups[g].first + groups[g].count; ++i)
          put(row, positional(i), lists_[i].values[at[g]]);
      rows.items.push_back(std::move(row));
      std::size_t g = groups.size();
      while (g > 0 && ++at[g - 1] == groups[g - 1].rows) at[--g] = 0;
      if (g == 0) break;
    }
    put(root_, "runs", std::move(rows));
  }

  void put_option(std::string_view option, std::string_view key, const std::string& value,
                  bool is_number) {
    if (value.empty()) return;
    Place at = place(fmt::format("{} {}", option, value));
    put(step_, std::string(key), is_number ? number_node(value, at) : text_node(value, at));
  }

  void put_options() {
    std::string name = options_.name;
    Place name_at = place(fmt::format("--name {}", name));
    if (name.empty() && !command_.empty()) name = to_sweep_name(program_name());
    put(root_, "name", text_node(name, name_at));
    step_ = table_node(root_.at);
    put_option("--gpus", "gpus", options_.gpus, true);
    put_option("--cpus", "cpus", options_.cpus, true);
    put_option("--memory", "memory", options_.memory, false);
    put_option("--gpu-memory", "gpu_memory", options_.gpu_memory, false);
    put_option("--timeout", "timeout", options_.timeout, false);
    put_option("--retries", "retries", options_.retries, true);
    put_option("--max-parallel", "max_parallel", options_.max_parallel, true);
    put_option("--priority", "priority", options_.priority, true);
    put_option("--weight", "weight", options_.weight, true);
    put_option("--cwd", "cwd", escaped(options_.cwd), false);
  }

  /// A folder is taken as it is: its braces are no placeholders.
  static std::string escaped(const std::string& text) {
    std::string out;
    for (char c : text) {
      out += c;
      if (c == '{' || c == '}') out += c;
    }
    return out;
  }

  /// "train.py" for both `./train.py` and `python3 train.py`.
  std::string program_name() const {
    auto base = [](const std::string& path) {
      std::size_t slash = path.rfind('/');
      return slash == std::string::npos ? path : path.substr(slash + 1);
    };
    std::string name = base(command_[0]);
    bool interpreter = name.rfind("python", 0) == 0 || name == "sh" || name == "bash";
    if (interpreter && command_.size() > 1 && command_[1][0] != '-') name = base(command_[1]);
    return name;
  }

  void put_command() {
    if (command_.empty()) {
      report_.error(root_.at,
                    "no command given; put it after `--`, as in `pergpu run -- python3 train.py`");
      return;
    }
    if (command_.size() == 1 && command_[0].find(' ') != std::string::npos)
      report_.error(place(fmt::format("word \"{}\"", command_[0])),
                    "the whole command is one quoted word; remove the quotes, or use `sh -c '…'`");
    const std::size_t equals = command_[0].find('=');
    if (equals != std::string::npos && is_identifier(command_[0].substr(0, equals)))
      report_.error(place(fmt::format("word \"{}\"", command_[0])),
                    fmt::format("`{0}` before the program needs a shell: write `env {0} …`, or set "
                                "it before pergpu, as in `{0} pergpu run -- …`",
                                command_[0]));
    bool any = false;
    Node list;
    list.kind = Node::Kind::List;
    list.at = root_.at;
    for (const std::string& word : command_) {
      Place at = place(fmt::format("word \"{}\"", word));
      if (word == "{}" && !lists_.empty()) {
        any = true;
        for (std::size_t i = 0; i < lists_.size(); ++i)
          list.items.push_back(text_node("{" + positional(i) + "}", at));
      } else {
        list.items.push_back(text_node(translate(word, at, any), at));
      }
    }
    if (!any)
      for (std::size_t i = 0; i < lists_.size(); ++i)
        list.items.push_back(text_node("{" + positional(i) + "}", root_.at));
    put(step_, "command", std::move(list));
    Node steps = table_node(root_.at);
    put(steps, "main", std::move(step_));
    put(root_, "steps", std::move(steps));
  }

  /// `{1}` -> `{arg1}`, `{}` -> all of them; leaves `{{` alone.
  std::string translate(const std::string& word, Place at, bool& any) {
    std::string out;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (word.compare(i, 2, "{{") == 0) {
        out += "{{";
        ++i;
        continue;
      }
      std::size_t end = word[i] == '{' ? word.find('}', i) : std::string::npos;
      if (end == std::string::npos) {
        out += word[i];
        continue;
      }
      std::string inner = word.substr(i + 1, end - i - 1);
      bool number = !inner.empty() && inner.size() < 5 &&
                    inner.find_first_not_of("0123456789") == std::string::npos;
      if (inner.empty() && !lists_.empty()) {
        for (std::size_t k = 0; k < lists_.size(); ++k)
          out += (k > 0 ? " {" : "{") + positional(k) + "}";
      } else if (number && !lists_.empty()) {
        std::size_t n = static_cast<std::size_t>(to_integer(inner));
        if (n == 0 || n > lists_.size()) {
          report_.error(at,
                        fmt::format("{{{}}}: there are only {} lists (:::)", inner, lists_.size()));
        } else {
          out += "{" + positional(n - 1) + "}";
        }
      } else if (!lists_.empty() && is_parallel_only(inner)) {
        report_.error(
            at,
            fmt::format(
                "{{{}}} of GNU parallel isn't supported; use {{}}, {{1}}, {{index}} and {{out}}",
                inner));
      } else {
        out += word.substr(i, end - i + 1);
        i = end;
        continue;
      }
      any = true;
      i = end;
    }
    return out;
  }

  static bool is_parallel_only(const std::string& inner) {
    static const std::vector<std::string_view> kKnown = {".", "/", "//", "/.", "#", "%", "##"};
    std::size_t digits = inner.find_first_not_of("0123456789");
    std::string_view rest =
        digits == std::string::npos ? std::string_view() : std::string_view(inner).substr(digits);
    return std::find(kKnown.begin(), kKnown.end(), rest) != kKnown.end();
  }

  Report& report_;
  const CommandLineOptions& options_;
  const std::vector<std::string>& words_;
  std::vector<std::string> command_;
  std::vector<List> lists_;
  Node root_;
  Node grid_;
  Node step_;
};

bool is_utf8(const CommandLineOptions& o, const std::vector<std::string>& words) {
  auto good = [](const std::string& text) {
    return find_invalid_utf8(text) == std::string_view::npos;
  };
  return std::all_of(words.begin(), words.end(), good) &&
         std::all_of(o.lists.begin(), o.lists.end(), good) && good(o.name) && good(o.cwd) &&
         good(o.out) && good(o.memory) && good(o.timeout);
}

}  // namespace

ParsedSweep sweep_from_command_line(const CommandLineOptions& options,
                                    const std::vector<std::string>& words) {
  ParsedSweep out;
  Report report;
  if (!is_utf8(options, words)) {
    report.error({report.add_source("the command line", ""), 0, 0}, "not valid UTF-8");
    out.diagnostics = report.take();
    return out;
  }
  Node root = CommandLineBuilder(report, options, words).build();
  LoadOptions load;
  if (!options.out.empty()) {
    const bool begins_by_itself = std::string_view("/~$").find(options.out[0]) != std::string::npos;
    load.out = begins_by_itself ? options.out : options.folder + "/" + options.out;
  }
  SchemaInput input;
  input.folder = options.folder;
  if (!report.failed()) out.sweep = build_sweep(report, std::move(root), input, load);
  out.diagnostics = report.take();
  return out;
}

}  // namespace pergpu
