// No attribute is written without quotes, and none holds a script or a style: the page's policy
// (report_style.h) allows neither.
#include "view/text/html.h"

#include <fmt/format.h>

#include <utility>

#include "view/text/escape.h"

namespace pergpu::view {
namespace {

/// Which color stands for a state or an outcome.
std::string_view mark_of(std::string_view state) {
  for (const std::string_view good : {"done", "ok"}) {
    if (state == good) return "good";
  }
  for (const std::string_view calm : {"queued", "held", "cancelled", "skipped", "requeue", ""}) {
    if (state == calm) return "calm";
  }
  for (const std::string_view busy : {"starting", "running", "stopping"}) {
    if (state == busy) return "busy";
  }
  return "bad";
}

}  // namespace

std::string html_text(std::string_view raw) {
  std::string out;
  for (const char c : safe_line(raw)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(std::string_view ascii_json) {
  std::string out;
  for (const char c : ascii_json) {
    if (c == '<') {
      out += "\\u003c";  // `<` stands in strings only
    } else {
      out += c;
    }
  }
  return out;
}

HtmlCell text_cell(std::string_view raw) { return {.html = html_text(raw)}; }

HtmlCell number_cell(std::string_view text) { return {.html = html_text(text), .number = true}; }

HtmlCell state_cell(std::string_view state) {
  if (state.empty()) return {};
  return {.html =
              fmt::format("<span class=\"mark {}\">{}</span>", mark_of(state), html_text(state))};
}

HtmlTable::HtmlTable(std::string_view id, std::string_view caption,
                     const std::vector<std::string>& columns) {
  html_ = fmt::format(
      "<div class=\"scroll\"><table id=\"{}\" class=\"sortable\">\n"
      "<caption>{}</caption>\n<thead><tr>",
      html_text(id), html_text(caption));
  for (const std::string& column : columns) {
    html_ += fmt::format("<th scope=\"col\">{}</th>", html_text(column));
  }
  html_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::add(const std::vector<HtmlCell>& row) {
  ++rows_;
  html_ += "<tr>";
  for (const HtmlCell& cell : row) {
    html_ += cell.number ? "<td class=\"n\"" : "<td";
    if (!cell.order.empty()) html_ += fmt::format(" data-order=\"{}\"", html_text(cell.order));
    html_ += ">" + cell.html + "</td>";
  }
  html_ += "</tr>\n";
}

std::string HtmlTable::take() { return std::move(html_) + "</tbody></table></div>\n"; }

std::string svg_number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace pergpu::view
