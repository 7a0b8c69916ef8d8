// Pieces of an HTML page.  Whatever comes from outside passes html_text(), so that a name, a log
// line or a parameter is text wherever it stands: between tags and in attributes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::view {

/// Escaped, on one line; control characters and marks that reorder text are visible (escape.h).
std::string html_text(std::string_view raw);

/// JSON that may stand within <script type="application/json">: the same value, without `<`.
std::string script_json(std::string_view ascii_json);

struct HtmlCell {
  std::string html = {};
  bool number = false;
  std::string order = {};  // what a column is sorted by, where it is not the text
};
HtmlCell text_cell(std::string_view raw);
/// `text` is one number, or empty.
HtmlCell number_cell(std::string_view text);
/// A state or an outcome, with a mark beside its word.
HtmlCell state_cell(std::string_view state);

/// A sortable table with <caption> and <thead>, as pandas.read_html and screen readers want them.
class HtmlTable {
 public:
  /// `caption` and `columns` are raw texts.
  HtmlTable(std::string_view id, std::string_view caption, const std::vector<std::string>& columns);
  void add(const std::vector<HtmlCell>& row);
  std::size_t size() const { return rows_; }
  std::string take();

 private:
  std::string html_;
  std::size_t rows_ = 0;
};

/// A number of an SVG: two decimals at most, no exponent.
std::string svg_number(double value);

}  // namespace pergpu::view
