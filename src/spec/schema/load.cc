// Bytes first: a text that is not UTF-8 is refused before any reader sees it.
#include "spec/schema/load.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "spec/readers/readers.h"
#include "spec/schema/schema.h"
#include "spec/tree/report.h"

namespace pergpu {
namespace {

std::optional<SweepFormat> format_of(const std::string& path) {
  std::string extension = lower_case(std::filesystem::path(path).extension().string());
  if (extension == ".toml") return SweepFormat::Toml;
  if (extension == ".yaml" || extension == ".yml") return SweepFormat::Yaml;
  if (extension == ".json") return SweepFormat::Json;
  return std::nullopt;
}

ParsedSweep whole_file_error(const std::string& path, std::string message) {
  ParsedSweep out;
  Diagnostic d;
  d.file = path;
  d.message = std::move(message);
  out.diagnostics.push_back(std::move(d));
  return out;
}

/// Where a text comes from.
struct Origin {
  std::string shown = {};   // in diagnostics
  std::string path = {};    // as it was given; empty: standard input
  std::string file = {};    // absolute; the same
  std::string folder = {};  // absolute
};

std::optional<Node> read_tree(Report& report, std::uint32_t source, SweepFormat format) {
  switch (format) {
    case SweepFormat::Toml:
      return read_toml(report, source);
    case SweepFormat::Yaml:
      return read_yaml(report, source);
    case SweepFormat::Json:
      return read_json(report, source);
  }
  return std::nullopt;
}

ParsedSweep parse(std::string text, SweepFormat format, const Origin& origin,
                  const LoadOptions& options) {
  ParsedSweep out;
  Report report;
  drop_byte_order_mark(text);
  std::size_t invalid = find_invalid_utf8(text);
  std::uint32_t source = report.add_source(origin.shown, std::move(text));
  if (invalid != std::string_view::npos) {
    report.error(report.place(source, invalid), why_not_utf8(report.source(source).text()));
    out.diagnostics = report.take();
    return out;
  }
  if (std::optional<Node> root = read_tree(report, source, format)) {
    const SchemaInput input{.path = origin.path, .file = origin.file, .folder = origin.folder};
    out.sweep = build_sweep(report, *std::move(root), input, options);
  }
  out.diagnostics = report.take();
  return out;
}

/// Of a text that has no file name: by its first line that says something.
SweepFormat guessed_format(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line.remove_prefix(first);
    if (line[0] == '{') return SweepFormat::Json;
    if (line[0] == '[') return SweepFormat::Toml;
    if (line.starts_with("---") || line.starts_with("%YAML")) return SweepFormat::Yaml;
    // `name = "a: b"` and `name: "a = b"`: the sign that comes first decides.
    const std::size_t sign = line.find_first_of("=:");
    const bool is_yaml = sign != std::string_view::npos && line[sign] == ':';
    return is_yaml ? SweepFormat::Yaml : SweepFormat::Toml;
  }
  return SweepFormat::Toml;
}

/// What is no file that anybody could open again: standard input, a pipe of the shell.
ParsedSweep load_stream(const std::string& shown, Result<std::string> text,
                        const LoadOptions& options) {
  std::error_code failed;
  const Origin origin{.shown = shown, .folder = std::filesystem::current_path(failed).string()};
  if (failed) return whole_file_error(shown, "current folder: " + failed.message());
  if (!text) return whole_file_error(shown, std::move(text).error().message);
  const SweepFormat format = guessed_format(*text);
  return parse(*std::move(text), format, origin, options);
}

}  // namespace

ParsedSweep load_sweep(const std::string& path, const LoadOptions& options) {
  if (path == "-") return load_stream("<stdin>", read_standard_input(kMaxSpecFileBytes), options);
  if (is_pipe(path)) return load_stream(path, read_pipe(path, kMaxSpecFileBytes), options);
  std::optional<SweepFormat> format = format_of(path);
  if (!format)
    return whole_file_error(path,
                            "the name of a sweep file must end in .toml, .yaml, .yml or .json");
  Result<std::string> text = read_text_file(path, kMaxSpecFileBytes);
  if (!text) return whole_file_error(path, std::move(text).error().message);
  return parse_sweep(*std::move(text), *format, path, options);
}

ParsedSweep parse_sweep(std::string text, SweepFormat format, const std::string& path,
                        const LoadOptions& options) {
  // Links are followed before `..` is: `link/../s.toml` lies above where the link leads.  The file
  // itself may be a link into a collection of files: it belongs where that link lies.
  const std::filesystem::path given(path);
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(given);
  std::filesystem::path folder = std::filesystem::weakly_canonical(whole.parent_path(), failed);
  if (failed) folder = whole.lexically_normal().parent_path();
  const Origin origin{.shown = path,
                      .path = path,
                      .file = (folder / given.filename()).string(),
                      .folder = folder.string()};
  return parse(std::move(text), format, origin, options);
}

}  // namespace pergpu
