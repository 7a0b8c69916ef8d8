// Points that fall on the same spot are drawn once and say how many they are, so that a sweep of
// any size has plots of a bounded one.
#include "view/charts/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "utf8_bytes.h"
#include "view/text/html.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

constexpr std::size_t kMostPlots = 36;
constexpr std::size_t kMostWords = 12;  // of a column without numbers
constexpr double kLeft = 52;
constexpr double kTop = 10;
constexpr double kPlotWidth = 180;
constexpr double kHeight = 120;
constexpr double kBottom = 34;
constexpr double kInset = 8;
constexpr double kDecades = 100;
constexpr std::size_t kMostTextOnAxis = 10;

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || at != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_not_finite(const std::string& text) {
  return text == "nan" || text == "inf" || text == "-inf";
}

/// Where the values of one column stand between 0 and 1.
class Scale {
 public:
  explicit Scale(const PlotColumn& column) {
    bool is_numeric = true;
    for (const std::string& text : column.texts) {
      if (text.empty() || is_not_finite(text)) continue;
      if (const std::optional<double> value = number_in(text)) {
        least_ = values_ == 0 ? *value : std::min(least_, *value);
        most_ = values_ == 0 ? *value : std::max(most_, *value);
        ++values_;
      } else {
        is_numeric = false;
      }
      words_.emplace(text, 0);
    }
    by_word_ = !is_numeric;
    std::size_t place = 0;
    for (auto& [word, at] : words_) at = place++;
    logarithmic_ = is_numeric && least_ > 0 && most_ / least_ >= kDecades;
  }

  bool by_word() const { return by_word_; }
  bool logarithmic() const { return logarithmic_; }
  /// A column that distinguishes runs.
  bool is_useful() const { return words_.size() > 1 && (!by_word_ || words_.size() <= kMostWords); }

  std::optional<double> place_of(const std::string& text) const {
    if (text.empty()) return std::nullopt;
    if (by_word_) {
      const auto found = words_.find(text);
      if (found == words_.end()) return std::nullopt;
      return (static_cast<double>(found->second) + 0.5) / static_cast<double>(words_.size());
    }
    const std::optional<double> value = number_in(text);
    if (!value) return std::nullopt;
    if (most_ <= least_) return 0.5;
    if (logarithmic_) return std::log(*value / least_) / std::log(most_ / least_);
    return *value / (most_ - least_) - least_ / (most_ - least_);
  }

  /// (place, text) along the axis.
  std::vector<std::pair<double, std::string>> marks() const {
    std::vector<std::pair<double, std::string>> all;
    if (by_word_) {
      for (const auto& [word, at] : words_) all.emplace_back(*place_of(word), word);
      return all;
    }
    all.emplace_back(most_ > least_ ? 0.0 : 0.5, number_text(least_));
    if (most_ > least_) all.emplace_back(1.0, number_text(most_));
    return all;
  }

 private:
  double least_ = 0;
  double most_ = 0;
  std::size_t values_ = 0;
  bool by_word_ = false;
  bool logarithmic_ = false;
  std::map<std::string, std::size_t> words_;
};

std::string axis_text(const std::string& text) {
  if (text.size() <= kMostTextOnAxis) return html_text(text);
  return html_text(whole_characters(text, kMostTextOnAxis - 1)) + "…";
}

std::string title_of(const std::string& name, const Scale& scale) {
  return html_text(name) + (scale.logarithmic() ? " (log)" : "");
}

struct Spot {
  std::string first = {};
  std::size_t more = 0;
};

std::string axes(const Scale& x, const Scale& y) {
  std::string out =
      fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                  svg_number(kLeft), svg_number(kTop), svg_number(kPlotWidth), svg_number(kHeight));
  for (const auto& [place, text] : x.marks()) {
    out += fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\">{}</text>\n",
                       svg_number(kLeft + kInset + place * (kPlotWidth - 2 * kInset)),
                       svg_number(kTop + kHeight + 14), axis_text(text));
  }
  for (const auto& [place, text] : y.marks()) {
    out += fmt::format(
        "<text class=\"axis y\" x=\"{}\" y=\"{}\">{}</text>\n", svg_number(kLeft - 4),
        svg_number(kTop + kHeight - kInset - place * (kHeight - 2 * kInset) + 4), axis_text(text));
  }
  return out;
}

std::string plot(const PlotColumn& parameter, const Scale& x, const PlotColumn& metric,
                 const Scale& y, const std::vector<std::string>& runs) {
  std::map<std::pair<long, long>, Spot> spots;  // in half pixels
  std::size_t nowhere = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::optional<double> across = x.place_of(parameter.texts.at(run));
    const std::optional<double> up = y.place_of(metric.texts.at(run));
    if (!across || !up) {
      nowhere += metric.texts.at(run).empty() ? 0 : 1;
      continue;
    }
    const double px = kLeft + kInset + *across * (kPlotWidth - 2 * kInset);
    const double py = kTop + kHeight - kInset - *up * (kHeight - 2 * kInset);
    const auto [at, is_new] = spots.try_emplace({std::lround(px * 2), std::lround(py * 2)});
    if (is_new) {
      at->second.first = fmt::format("{}: {} {}, {} {}", runs[run], parameter.name,
                                     parameter.texts[run], metric.name, metric.texts[run]);
    } else {
      ++at->second.more;
    }
  }
  std::string out = fmt::format(
      "<figure><figcaption>{} by {}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{} by {}; the table of runs has the same data\">\n",
      title_of(metric.name, y), title_of(parameter.name, x), svg_number(kLeft + kPlotWidth + 8),
      svg_number(kTop + kHeight + kBottom), html_text(metric.name), html_text(parameter.name));
  out += axes(x, y);
  for (const auto& [at, spot] : spots) {
    const std::string more = spot.more == 0 ? "" : fmt::format("; and {} more here", spot.more);
    out += fmt::format(
        "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"3.5\"><title>{}</title></circle>\n",
        svg_number(static_cast<double>(at.first) / 2),
        svg_number(static_cast<double>(at.second) / 2), html_text(spot.first + more));
  }
  if (nowhere > 0) {
    out +=
        fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\">{} not shown: no value</text>\n",
                    svg_number(kLeft + kPlotWidth / 2), svg_number(kTop + kHeight + 29), nowhere);
  }
  return out + "</svg></figure>\n";
}

}  // namespace

std::string plots_html(const std::vector<PlotColumn>& parameters,
                       const std::vector<PlotColumn>& metrics,
                       const std::vector<std::string>& runs) {
  std::vector<std::pair<const PlotColumn*, Scale>> across;
  std::vector<std::pair<const PlotColumn*, Scale>> up;
  for (const PlotColumn& parameter : parameters) {
    if (Scale scale(parameter); scale.is_useful()) across.emplace_back(&parameter, scale);
  }
  for (const PlotColumn& metric : metrics) {
    if (Scale scale(metric); !scale.by_word() && scale.is_useful()) up.emplace_back(&metric, scale);
  }
  std::string out;
  std::size_t drawn = 0;
  for (const auto& [metric, y] : up) {
    for (const auto& [parameter, x] : across) {
      if (drawn == kMostPlots) break;
      out += plot(*parameter, x, *metric, y, runs);
      ++drawn;
    }
  }
  if (drawn == 0) return "";
  const std::size_t all = up.size() * across.size();
  out = "<div class=\"plots\">\n" + out + "</div>\n";
  if (all > drawn) {
    out += fmt::format(
        "<p>{} more plots ({} metrics by {} parameters) are left out; the table of runs has their "
        "values.</p>\n",
        all - drawn, up.size(), across.size());
  }
  return out;
}

}  // namespace pergpu::view
