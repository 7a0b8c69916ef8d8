// Bytes first: a text that is not UTF-8 is refused before any reader sees it.
#include "spec/load.h"

#include <fmt/core.h>

#include <filesystem>

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

}  // namespace

ParsedSweep load_sweep(const std::string& path, const LoadOptions& options) {
  std::optional<SweepFormat> format = format_of(path);
  if (!format) return whole_file_error(path, "a sweep file ends in .toml, .yaml, .yml or .json");
  Result<std::string> text = read_text_file(path, kMaxSpecFileBytes);
  if (!text) return whole_file_error(path, std::move(text).error().message);
  return parse_sweep(*std::move(text), *format, path, options);
}

ParsedSweep parse_sweep(std::string text, SweepFormat format, const std::string& path,
                        const LoadOptions& options) {
  ParsedSweep out;
  Report report;
  drop_byte_order_mark(text);
  std::size_t invalid = find_invalid_utf8(text);
  std::uint32_t source = report.add_source(path, std::move(text));
  if (invalid != std::string_view::npos) {
    report.error(report.place(source, invalid), "not valid UTF-8");
    out.diagnostics = report.take();
    return out;
  }
  std::optional<Node> root = read_tree(report, source, format);
  if (root) {
    SchemaInput input;
    input.path = path;
    std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
    input.file = absolute.string();
    input.folder = absolute.parent_path().string();
    out.sweep = build_sweep(report, *std::move(root), input, options);
  }
  out.diagnostics = report.take();
  return out;
}

}  // namespace pergpu
