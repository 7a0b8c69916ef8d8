// Bytes first: a text that is not UTF-8 is refused before any reader sees it.
#include "spec/load.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "spec/readers.h"
#include "spec/report.h"
#include "spec/schema.h"

namespace pergpu {
namespace {

std::optional<SweepFormat> format_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
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

ParsedSweep load_standard_input(const LoadOptions& options) {
  std::error_code failed;
  const Origin origin{.shown = "<stdin>", .folder = std::filesystem::current_path(failed).string()};
  if (failed) return whole_file_error(origin.shown, "current folder: " + failed.message());
  Result<std::string> text = read_standard_input(kMaxSpecFileBytes);
  if (!text) return whole_file_error(origin.shown, std::move(text).error().message);
  const std::size_t first = text->find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && (*text)[first] == '{';
  return parse(*std::move(text), is_json ? SweepFormat::Json : SweepFormat::Toml, origin, options);
}

}  // namespace

ParsedSweep load_sweep(const std::string& path, const LoadOptions& options) {
  if (path == "-") return load_standard_input(options);
  std::optional<SweepFormat> format = format_of(path);
  if (!format) return whole_file_error(path, "a sweep file ends in .toml, .yaml, .yml or .json");
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
