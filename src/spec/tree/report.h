// Collects every mistake of one reading, over all the sources it touches (the sweep file, the files
// of runs_from, -p options).  Reading goes on after a mistake, so that a user sees all at once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "spec/text/source_text.h"
#include "spec/tree/diagnostics.h"
#include "spec/tree/node.h"

namespace pergpu {

class Report {
 public:
  /// The number for Place::source.
  std::uint32_t add_source(std::string path, std::string text);
  const SourceText& source(std::uint32_t number) const { return sources_[number]; }
  Place place(std::uint32_t source_number, std::size_t offset) const;

  void error(Place at, std::string message);
  void warning(Place at, std::string message);
  bool failed() const { return errors_ > 0; }
  std::size_t errors() const { return errors_; }

  /// Part of the file could not be read, so what refers to it must not be called unknown.
  void set_incomplete() { incomplete_ = true; }
  bool incomplete() const { return incomplete_; }

  /// Sorted, each once.
  std::vector<Diagnostic> take();

 private:
  void add(Diagnostic::Severity severity, Place at, std::string message);

  std::deque<SourceText> sources_;  // deque: texts are referred to while more are added
  std::vector<Diagnostic> found_;
  std::size_t errors_ = 0;
  std::size_t left_out_ = 0;
  bool incomplete_ = false;
};

/// "line 12", or "runs.csv:12" when `there` is in another source than `here`: for "also given at
/// …".
std::string refer(const Report& report, Place there, Place here);

}  // namespace pergpu
