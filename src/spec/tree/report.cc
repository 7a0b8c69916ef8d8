// A million rows with the same mistake must not become a million messages: after kMaxErrors the
// rest is only counted.
#include "spec/tree/report.h"

#include <fmt/core.h>

#include "utf8_bytes.h"

namespace pergpu {
namespace {

constexpr std::size_t kMaxErrors = 100;
constexpr std::size_t kMaxLineBytes = 400;

}  // namespace

std::uint32_t Report::add_source(std::string path, std::string text) {
  sources_.emplace_back(std::move(path), std::move(text));
  return static_cast<std::uint32_t>(sources_.size() - 1);
}

Place Report::place(std::uint32_t source_number, std::size_t offset) const {
  SourceText::Position p = sources_[source_number].position(offset);
  return {source_number, p.line, p.column};
}

void Report::error(Place at, std::string message) {
  ++errors_;
  if (errors_ > kMaxErrors) {
    ++left_out_;
    return;
  }
  add(Diagnostic::Severity::Error, at, std::move(message));
}

void Report::warning(Place at, std::string message) {
  add(Diagnostic::Severity::Warning, at, std::move(message));
}

void Report::add(Diagnostic::Severity severity, Place at, std::string message) {
  const SourceText& source = sources_[at.source];
  Diagnostic d;
  d.severity = severity;
  d.file = source.path();
  d.line = static_cast<int>(at.line);
  d.column = static_cast<int>(at.column);
  d.message = std::move(message);
  if (at.line > 0) d.source_line = abbreviated(source.line(at.line), kMaxLineBytes);
  found_.push_back(std::move(d));
}

std::vector<Diagnostic> Report::take() {
  std::vector<Diagnostic> all = std::move(found_);
  found_.clear();
  sort_diagnostics(all);
  if (left_out_ > 0) {
    Diagnostic d;
    d.file = sources_.empty() ? std::string() : sources_.front().path();
    d.message = fmt::format("{} more errors are not shown", left_out_);
    all.push_back(std::move(d));
  }
  return all;
}

std::string refer(const Report& report, Place there, Place here) {
  if (there.source == here.source) return fmt::format("line {}", there.line);
  return fmt::format("{}:{}", report.source(there.source).path(), there.line);
}

}  // namespace pergpu
