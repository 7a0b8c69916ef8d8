// Units of the drawing are pixels of a page on which the chart is kLabels + kChartWidth wide.
#include "view/charts/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "view/charts/strip.h"
#include "view/model/job_facts.h"
#include "view/text/html.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

constexpr double kLabels = 130;
constexpr double kChartWidth = 1000;
constexpr double kAxis = 24;
constexpr double kRow = 24;
constexpr double kBar = 18;
/// Bars are at least so wide, and drawn as one where they would begin within another.
constexpr double kNarrowest = 1;
constexpr double kWidestGroup = 4;
constexpr double kWideEnoughForText = 22;
/// A strip, and what a row is higher by where there are any.
constexpr double kStrip = 4;
constexpr double kStripRow = 6;
constexpr double kNarrowestPiece = 2;
constexpr std::size_t kColours = 6;
constexpr int kMostTicks = 8;

/// The worst of those in one bar decides how it looks.
enum class BarLook : std::uint8_t { Step, Calm, Live, Bad };

struct Drawn {
  double from = 0;
  double to = 0;
  BarLook look = BarLook::Step;
  std::size_t colour = 0;
  std::size_t count = 0;
  std::size_t failed = 0;
  const Bar* first = nullptr;
  const Bar* last = nullptr;
  double known_ns = 0;  // of several: how long those lived together whose use is known
  double used_ns = 0;   // and that times the share in use
};

BarLook bar_look_of(const AttemptFacts& attempt) {
  if (attempt.live) return BarLook::Live;
  const std::string outcome = outcome_of(attempt);
  if (outcome == "ok") return BarLook::Step;
  return outcome == "cancelled" || outcome == "requeue" ? BarLook::Calm : BarLook::Bad;
}

std::string class_of(const Drawn& bar) {
  switch (bar.look) {
    case BarLook::Step:
      return fmt::format("bar s{}", bar.colour);
    case BarLook::Calm:
      return "bar other";
    case BarLook::Live:
      return fmt::format("bar live s{}", bar.colour);
    case BarLook::Bad:
      return "bar failed";
  }
  return "bar";
}

/// What a strip shows: of a GPU how busy it is, of other lanes cores against those promised.
std::optional<double> share_of(const std::optional<double>& gpu_busy_percent,
                               const std::optional<double>& cores, const AttemptFacts& attempt,
                               bool has_gpu) {
  if (has_gpu) {
    if (!gpu_busy_percent) return std::nullopt;
    return *gpu_busy_percent / 100;
  }
  if (!cores || attempt.cpus.value_or(0) <= 0) return std::nullopt;
  return *cores / static_cast<double>(*attempt.cpus);
}

std::optional<double> mean_of(const std::optional<AttemptUsage::Extent>& extent) {
  return extent ? std::optional(extent->mean) : std::nullopt;
}

std::optional<double> mean_share_of(const AttemptFacts& attempt, bool has_gpu) {
  return share_of(mean_of(attempt.usage.gpu_busy_percent), mean_of(attempt.usage.cores), attempt,
                  has_gpu);
}

bool is_of_gpu(const TimelineRow& row) { return row.pool == "gpu"; }

bool has_strips(const Gantt& gantt) {
  for (const TimelineRow& row : gantt.timeline.rows) {
    for (const Bar& bar : row.bars) {
      const AttemptFacts& attempt = gantt.jobs[bar.job].attempts[bar.attempt];
      if (mean_share_of(attempt, is_of_gpu(row))) return true;
    }
  }
  return false;
}

/// "; GPU 91 % busy on average, 100 % at most; 1.02 of 4 cores on average, 3.98 at most"
std::string use_text(const AttemptFacts& attempt, bool has_gpu) {
  std::string text;
  if (const auto& busy = attempt.usage.gpu_busy_percent; busy && has_gpu) {
    text += fmt::format("; GPU {:.0f} % busy on average, {:.0f} % at most", busy->mean, busy->most);
  }
  if (const auto& cores = attempt.usage.cores) {
    const std::string of = attempt.cpus.value_or(0) > 0
                               ? fmt::format("{:.2f} of {}", cores->mean, *attempt.cpus)
                               : fmt::format("{:.2f}", cores->mean);
    text += fmt::format("; {} cores on average, {:.2f} at most", of, cores->most);
  }
  return text;
}

class Drawing {
 public:
  explicit Drawing(const Gantt& gantt) : g_(gantt), has_strips_(has_strips(gantt)) {
    const auto span = static_cast<double>(g_.timeline.end_ns - g_.timeline.begin_ns);
    per_ns_ = span > 0 ? kChartWidth / span : 0;
    row_ = has_strips_ ? kRow + kStripRow : kRow;
    height_ = kAxis + row_ * static_cast<double>(g_.timeline.rows.size());
  }

  std::string take() {
    out_ = fmt::format(
        "<svg class=\"gantt\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"attempts by lane and "
        "time; the table of attempts below has the same data\">\n"
        "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect class=\"hatch0\" width=\"6\" height=\"6\"/><rect "
        "class=\"hatch1\" width=\"2\" height=\"6\"/></pattern></defs>\n",
        svg_number(kLabels + kChartWidth + 10), svg_number(height_));
    draw_axis();
    for (std::size_t i = 0; i < g_.timeline.rows.size(); ++i) draw_row(i);
    return std::move(out_) + "</svg>\n";
  }

 private:
  double x_of(std::int64_t ns) const {
    return kLabels + static_cast<double>(ns - g_.timeline.begin_ns) * per_ns_;
  }

  void draw_axis() {
    const double span_s = static_cast<double>(g_.timeline.end_ns - g_.timeline.begin_ns) / 1e9;
    const double step = tick_s(span_s);
    for (int i = 0; step > 0 && step * i <= span_s; ++i) {
      const double x = kLabels + step * i * 1e9 * per_ns_;
      out_ += fmt::format(
          "<line class=\"tick\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>"
          "<text class=\"axis\" x=\"{0}\" y=\"{3}\">{4}</text>\n",
          svg_number(x), svg_number(kAxis - 6), svg_number(height_), svg_number(kAxis - 10),
          tick_text(step * i, step));
    }
  }

  /// The smallest round step that gives at most kMostTicks of them.
  static double tick_s(double span_s) {
    constexpr std::array kSteps = {0.001,  0.002,  0.005,  0.01,    0.02,   0.05,  0.1,   0.2,
                                   0.5,    1.0,    2.0,    5.0,     10.0,   15.0,  30.0,  60.0,
                                   120.0,  300.0,  600.0,  900.0,   1800.,  3600., 7200., 10800.,
                                   21600., 43200., 86400., 172800., 604800.};
    if (span_s <= 0) return 0;
    for (const double step : kSteps) {
      if (span_s / step <= kMostTicks) return step;
    }
    return span_s / kMostTicks;
  }

  static std::string tick_text(double seconds, double step) {
    if (seconds == 0) return "0";
    if (step < 1) return fmt::format("{:.3g}s", seconds);
    return seconds < 60 ? fmt::format("{:.0f}s", seconds) : duration_text(seconds);
  }

  void draw_row(std::size_t i) {
    const TimelineRow& row = g_.timeline.rows[i];
    const double top = kAxis + row_ * static_cast<double>(i);
    out_ += fmt::format(
        "<g><text class=\"lane\" x=\"0\" y=\"{}\">{} <tspan class=\"share\">{:.0f} "
        "%</tspan></text>\n",
        svg_number(top + 16), html_text(row.name), g_.shares.at(i) * 100);
    const double top_of_bar = top + (kRow - kBar) / 2;
    for (const Drawn& bar : drawn_of(row)) {
      draw(bar, top_of_bar, is_of_gpu(row));
      if (has_strips_) draw_strip(bar, top_of_bar + kBar + 1, is_of_gpu(row));
    }
    out_ += "</g>\n";
  }

  std::vector<Drawn> drawn_of(const TimelineRow& row) const {
    std::vector<Drawn> all;
    for (const Bar& bar : row.bars) {
      const JobHistory& job = g_.jobs[bar.job];
      Drawn one{.from = x_of(bar.begin_ns), .to = x_of(bar.end_ns), .count = 1};
      one.first = one.last = &bar;
      one.look = bar_look_of(job.attempts[bar.attempt]);
      one.colour = colour_of(job.job.step);
      one.failed = one.look == BarLook::Bad ? 1 : 0;
      if (const auto share = mean_share_of(job.attempts[bar.attempt], is_of_gpu(row))) {
        // Those of no length count as if they had a nanosecond.
        one.known_ns = static_cast<double>(std::max<std::int64_t>(bar.end_ns - bar.begin_ns, 1));
        one.used_ns = *share * one.known_ns;
      }
      const bool is_narrow = one.to - one.from < kNarrowest;
      one.to = std::max(one.to, one.from + kNarrowest);
      if (is_narrow && !all.empty() && one.from < all.back().to &&
          all.back().to - all.back().from < kWidestGroup) {
        Drawn& before = all.back();
        before.to = std::max(before.to, one.to);
        before.look = std::max(before.look, one.look);
        before.count += 1;
        before.failed += one.failed;
        before.last = &bar;
        before.known_ns += one.known_ns;
        before.used_ns += one.used_ns;
        continue;
      }
      all.push_back(one);
    }
    return all;
  }

  std::size_t colour_of(const std::string& step) const {
    const auto found = std::find(g_.steps.begin(), g_.steps.end(), step);
    return static_cast<std::size_t>(found - g_.steps.begin()) % kColours;
  }

  /// Over time where that is known, else of one color.
  void draw_strip(const Drawn& bar, double top, bool has_gpu) {
    const AttemptFacts& attempt = g_.jobs[bar.first->job].attempts[bar.first->attempt];
    const double width = bar.to - bar.from;
    std::vector<StripPiece> pieces;
    if (bar.count == 1) {
      std::vector<StripStretch> stretches;
      for (const UsageStretch& stretch : attempt.series) {
        if (const auto share = share_of(stretch.gpu_busy_percent, stretch.cores, attempt, has_gpu))
          stretches.push_back(
              {.begin_ns = stretch.begin_ns, .end_ns = stretch.end_ns, .share = *share});
      }
      const auto most = static_cast<std::size_t>(std::max(width / kNarrowestPiece, 1.0));
      pieces = strip_pieces(stretches, bar.first->begin_ns, bar.first->end_ns, most);
    }
    if (pieces.empty() && bar.known_ns > 0) {
      pieces.push_back({.from = 0, .to = 1, .level = level_of(bar.used_ns / bar.known_ns)});
    }
    for (const StripPiece& piece : pieces) {
      out_ += fmt::format("<rect class=\"heat h{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                          piece.level, svg_number(bar.from + piece.from * width), svg_number(top),
                          svg_number((piece.to - piece.from) * width), svg_number(kStrip));
    }
    if (!pieces.empty()) out_ += "\n";
  }

  void draw(const Drawn& bar, double top, bool has_gpu) {
    out_ += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
        class_of(bar), svg_number(bar.from), svg_number(top), svg_number(bar.to - bar.from),
        svg_number(kBar), html_text(title_of(bar, has_gpu)));
    const JobSnapshot& job = g_.jobs[bar.first->job].job;
    if (bar.count == 1 && bar.to - bar.from >= kWideEnoughForText && job.index) {
      out_ += fmt::format("<text class=\"on\" x=\"{}\" y=\"{}\">{}</text>",
                          svg_number(bar.from + 4), svg_number(top + 13), *job.index);
    }
    out_ += "\n";
  }

  std::string title_of(const Drawn& bar, bool has_gpu) const {
    if (bar.count > 1) {
      return fmt::format("{} attempts, {} failed, {} to {}", bar.count, bar.failed,
                         time_of_day(bar.first->begin_ns, g_.utc_offset_s),
                         time_of_day(bar.last->end_ns, g_.utc_offset_s));
    }
    const JobHistory& job = g_.jobs[bar.first->job];
    const AttemptFacts& attempt = job.attempts[bar.first->attempt];
    const double seconds = static_cast<double>(bar.first->end_ns - bar.first->begin_ns) / 1e9;
    std::string title = fmt::format(
        "{} attempt {}: {}, {}, {} to {}", short_name_of(job.job), attempt.number,
        outcome_of(attempt), duration_text(seconds),
        time_of_day(bar.first->begin_ns, g_.utc_offset_s),
        attempt.live ? std::string("now") : time_of_day(bar.first->end_ns, g_.utc_offset_s));
    if (!attempt.reason.empty()) title += "; " + attempt.reason;
    return title + use_text(attempt, has_gpu);
  }

  const Gantt& g_;
  bool has_strips_ = false;
  double row_ = 0;
  double per_ns_ = 0;
  double height_ = 0;
  std::string out_;
};

}  // namespace

std::string gantt_svg(const Gantt& gantt) {
  return gantt.timeline.rows.empty() ? std::string() : Drawing(gantt).take();
}

std::string gantt_legend(const Gantt& gantt) {
  const auto entry = [](const std::string& look, std::string_view word) {
    return fmt::format(
        "<span class=\"key\"><svg width=\"16\" height=\"12\" aria-hidden=\"true\"><rect "
        "class=\"{}\" width=\"16\" height=\"12\"/></svg> {}</span>\n",
        look, html_text(word));
  };
  std::string out = "<p class=\"legend\">\n";
  for (std::size_t i = 0; i < gantt.steps.size(); ++i) {
    out += entry(fmt::format("bar s{}", i % kColours), gantt.steps[i]);
  }
  out += entry("bar failed", "failed") + entry("bar other", "cancelled or requeued") +
         entry("bar live s0", "still running") + "</p>\n";
  if (!has_strips(gantt)) return out;
  constexpr std::array<std::string_view, kLevels> kWords = {
      "below 20 %", "20 to 40", "40 to 60", "60 to 80", "80 % and more", "more than reserved"};
  out +=
      "<p class=\"legend\">Below a bar: how busy its GPU was or, on lanes without a GPU, the share "
      "of its reserved cores in use. No strip: not known.\n";
  for (std::size_t level = 0; level < kWords.size(); ++level) {
    out += entry(fmt::format("heat h{}", level), kWords[level]);
  }
  return out + "</p>\n";
}

}  // namespace pergpu::view
