// Rows are handed over one at a time: a tree for each of a million rows would not fit.
#include "spec/runs/read_rows.h"

#include <fmt/core.h>
#include <glob.h>

#include <algorithm>

#include "spec/readers/readers.h"
#include "spec/runs/csv.h"

namespace pergpu {
namespace {

std::string join(const std::string& folder, const std::string& path) {
  if (folder.empty() || (!path.empty() && path[0] == '/')) return path;
  return folder.back() == '/' ? folder + path : folder + "/" + path;
}

/// In lower case.
std::string extension_of(std::string_view path) {
  std::size_t slash = path.rfind('/');
  std::string_view base = slash == std::string_view::npos ? path : path.substr(slash + 1);
  std::size_t dot = base.rfind('.');
  return dot == std::string_view::npos ? std::string()
                                       : lower_case(std::string(base.substr(dot + 1)));
}

/// Of rows that come from a pipe: by their first character.
std::string guessed_extension(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "csv";
  return text[first] == '{' ? "jsonl" : text[first] == '[' ? "json" : "csv";
}

void visit_json_lines(Report& report, std::uint32_t source,
                      const std::function<void(Node&&)>& visit) {
  std::string_view text = report.source(source).text();
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      std::optional<Node> row = read_json_value(report, source, line, at);
      if (row) visit(*std::move(row));
    }
    at = end + 1;
  }
}

constexpr std::string_view kBlanks = " \t";

bool has_outer_blanks(std::string_view text) {
  return !text.empty() && (kBlanks.find(text.front()) != std::string_view::npos ||
                           kBlanks.find(text.back()) != std::string_view::npos);
}

std::string without_outer_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t end = text.find_last_not_of(kBlanks);
  return end == std::string_view::npos ? std::string()
                                       : std::string(text.substr(begin, end - begin + 1));
}

/// A header of one column with another separator in it was hardly meant as a name.
void check_separator(Report& report, const std::vector<Key>& header) {
  if (header.size() != 1) return;
  for (const auto& [separator, name] :
       {std::pair{';', "semicolons"}, std::pair{'\t', "tabs"}, std::pair{'|', "|"}}) {
    if (header[0].text.find(separator) == std::string::npos) continue;
    report.error(header[0].at,
                 fmt::format("the columns seem to be separated by {}; use commas", name));
    report.set_incomplete();
    return;
  }
}

void visit_csv_rows(Report& report, std::uint32_t source,
                    const std::function<void(Node&&)>& visit) {
  std::vector<Key> header;
  bool header_read = false;
  bool warned_of_blanks = false;
  auto on_record = [&](const std::vector<CsvField>& fields) {
    Place at = report.place(source, fields[0].offset);
    if (!header_read) {
      header_read = true;
      for (const CsvField& f : fields) {
        Key key{f.quoted ? f.text : without_outer_blanks(f.text), report.place(source, f.offset)};
        if (std::any_of(header.begin(), header.end(),
                        [&](const Key& other) { return other.text == key.text; }))
          report.error(key.at, fmt::format("duplicate column `{}`", key.text));
        header.push_back(std::move(key));
      }
      check_separator(report, header);
      return;
    }
    if (fields.size() != header.size()) {
      report.error(at, fmt::format("this row has {} fields, but the header has {}", fields.size(),
                                   header.size()));
      return;
    }
    Node row;
    row.kind = Node::Kind::Table;
    row.at = at;
    row.keys = header;
    for (const CsvField& f : fields) {
      Place field_at = report.place(source, f.offset);
      if (f.quoted) {
        Node text;
        text.kind = Node::Kind::String;
        text.at = field_at;
        text.text = f.text;
        row.items.push_back(std::move(text));
      } else {
        if (!warned_of_blanks && has_outer_blanks(f.text)) {
          warned_of_blanks = true;
          report.warning(field_at,
                         "this number has spaces around it, so it would be a string; remove the "
                         "spaces, or put the cell in quotes");
        }
        row.items.push_back(typed_text(f.text, field_at));
      }
    }
    visit(std::move(row));
  };
  for (const CsvError& e : visit_csv(report.source(source).text(), on_record))
    report.error(report.place(source, e.offset), fmt::format("not valid CSV: {}", e.message));
  if (!header_read)
    report.error({source, 0, 0},
                 "this file has no header; its first line must name the parameters");
}

/// A file that is one tree: a table is one run, a list is many.
void visit_tree(std::optional<Node> root, const std::function<void(Node&&)>& visit) {
  if (!root) return;
  if (!root->is(Node::Kind::List)) return visit(*std::move(root));
  for (Node& row : root->items) visit(std::move(row));
}

void visit_file(Report& report, const std::string& path, const std::string& shown, Place at,
                const std::function<void(Node&&)>& visit) {
  const bool has_no_name = is_pipe(path);
  Result<std::string> text =
      has_no_name ? read_pipe(path, kMaxRunsFileBytes) : read_text_file(path, kMaxRunsFileBytes);
  if (!text) {
    // Files are named in messages as the user spelt them.
    std::string why = text.error().message;
    if (std::size_t found = why.find(path); found != std::string::npos)
      why.replace(found, path.size(), shown);
    report.error(at, fmt::format("`runs_from`: {}", why));
    report.set_incomplete();
    return;
  }
  std::size_t invalid = find_invalid_utf8(*text);
  const std::string extension = has_no_name ? guessed_extension(*text) : extension_of(path);
  std::uint32_t source = report.add_source(shown, *std::move(text));
  if (invalid != std::string_view::npos) {
    report.error(report.place(source, invalid), why_not_utf8(report.source(source).text()));
    report.set_incomplete();
    return;
  }
  if (extension == "jsonl" || extension == "ndjson") {
    visit_json_lines(report, source, visit);
  } else if (extension == "csv") {
    visit_csv_rows(report, source, visit);
  } else if (extension == "json") {
    visit_tree(read_json(report, source), visit);
  } else if (extension == "toml") {
    visit_tree(read_toml(report, source), visit);
  } else if (extension == "yaml" || extension == "yml") {
    visit_tree(read_yaml(report, source), visit);
  } else {
    report.error(at, fmt::format("`runs_from`: {}: unknown file type; expected a .jsonl, .csv, "
                                 ".json, .toml or .yaml file",
                                 shown));
    report.set_incomplete();
  }
}

}  // namespace

bool is_glob(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

std::vector<std::string> glob_files(const std::string& folder, const std::string& pattern) {
  // The folder itself may hold characters that glob() would take for wildcards.
  std::string escaped;
  bool absolute = !pattern.empty() && pattern[0] == '/';
  std::string prefix = absolute || folder.empty() ? std::string() : join(folder, "");
  for (char c : prefix) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  glob_t found = {};
  std::vector<std::string> files;
  if (::glob((escaped + pattern).c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i)
      files.emplace_back(std::string_view(found.gl_pathv[i]).substr(prefix.size()));
  ::globfree(&found);
  // glob() sorts by the locale; the order of runs must not depend on it.
  std::sort(files.begin(), files.end());
  return files;
}

void visit_rows(Report& report, const std::string& folder, const std::string& shown_folder,
                const std::string& pattern, Place at, const std::function<void(Node&&)>& visit) {
  std::vector<std::string> files = {pattern};
  if (is_glob(pattern)) {
    files = glob_files(folder, pattern);
    if (files.empty()) {
      report.error(at, fmt::format("`runs_from`: no file matches \"{}\"", pattern));
      report.set_incomplete();
    }
  }
  for (const std::string& file : files)
    visit_file(report, join(folder, file), join(shown_folder, file), at, visit);
}

}  // namespace pergpu
