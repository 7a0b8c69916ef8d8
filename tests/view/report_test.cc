// The HTML report: whatever stands in names, parameters and logs, it stays text, and the numbers
// are those of the measured times.
#include "view/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "view/charts/gantt.h"
#include "view/charts/plot.h"
#include "view/model/efficiency.h"
#include "view/text/html.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr std::int64_t kStart = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

AttemptFacts attempt(std::string cls, std::string lane, std::int64_t from_s, std::int64_t to_s) {
  AttemptFacts a;
  a.number = 1;
  a.cls = std::move(cls);
  a.lane = std::move(lane);
  a.started_at = kStart + from_s * kSecond;
  a.ended_at = kStart + to_s * kSecond;
  a.duration_s = static_cast<double>(to_s - from_s);
  return a;
}

JobHistory history(std::int64_t id, std::int64_t index, std::string step, AttemptFacts a) {
  JobHistory h;
  h.job.id = id;
  h.job.sweep = "thirteen";
  h.job.sweep_id = 1;
  h.job.run = std::to_string(index) + "-lr";
  h.job.index = index;
  h.job.step = std::move(step);
  h.job.state = a.cls == "ok" ? "done" : "failed";
  h.job.cls = a.cls;
  h.job.attempt = 1;
  h.job.duration_s = a.duration_s;
  h.attempts.push_back(std::move(a));
  return h;
}

/// Two runs on two GPUs; the evaluation of the first waits for its training.
std::vector<JobHistory> some_jobs() {
  std::vector<JobHistory> jobs = {history(1, 0, "train", attempt("ok", "gpu0", 0, 10)),
                                  history(2, 1, "train", attempt("ok", "gpu1", 0, 12)),
                                  history(3, 0, "evaluate", attempt("ok", "gpu0", 12, 16))};
  jobs[2].needs = {"train"};
  return jobs;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

Report report_of(std::vector<JobHistory> jobs) {
  Report report;
  report.sweep.name = "thirteen";
  report.sweep.root = "/runs";
  report.sweep.steps = {"train", "evaluate"};
  report.sweep.columns = {"lr"};
  report.jobs = std::move(jobs);
  report.machine.host = "node1";
  report.machine.version = "0.1.0";
  report.machine.cores = 4;
  report.now_ns = kStart + 20 * kSecond;
  return report;
}

TEST(Efficiency, LowerBoundIsTheLongestChainOrTheWorkSpreadEvenly) {
  std::vector<JobHistory> jobs = some_jobs();
  const Timeline timeline = timeline_of(jobs, kStart);
  Efficiency e = efficiency_of(jobs, timeline, 0);
  EXPECT_DOUBLE_EQ(e.span_s, 16);
  EXPECT_DOUBLE_EQ(e.work_s, 26);
  EXPECT_DOUBLE_EQ(e.chain_s, 14);
  EXPECT_DOUBLE_EQ(e.bound_s, 14);
  ASSERT_EQ(e.lanes.size(), 2u);
  EXPECT_DOUBLE_EQ(e.lanes[0].share, 14.0 / 16);
  EXPECT_DOUBLE_EQ(e.lanes[1].share, 12.0 / 16);
  jobs[2].needs = {"train:all"};
  EXPECT_DOUBLE_EQ(efficiency_of(jobs, timeline, 0).chain_s, 16);
  jobs[2].needs = {};
  e = efficiency_of(jobs, timeline, 0);
  EXPECT_DOUBLE_EQ(e.chain_s, 12);
  EXPECT_DOUBLE_EQ(e.bound_s, 13);  // 26 s of work on 2 lanes
}

TEST(Efficiency, LanesOfOneKindDoNotDoTheWorkOfAnother) {
  const std::vector<JobHistory> jobs = {history(1, 0, "train", attempt("ok", "gpu0", 0, 10)),
                                        history(2, 1, "train", attempt("ok", "gpu0", 10, 20)),
                                        history(3, 0, "evaluate", attempt("ok", "cpu0", 10, 12))};
  EXPECT_DOUBLE_EQ(efficiency_of(jobs, timeline_of(jobs, kStart), 0).bound_s, 20);
}

TEST(Efficiency, ACircleOfNeedsEnds) {
  std::vector<JobHistory> jobs = some_jobs();
  jobs[0].needs = {"evaluate"};
  EXPECT_GT(efficiency_of(jobs, timeline_of(jobs, kStart), 0).chain_s, 0);
}

TEST(Efficiency, SharesAreAddedUpAndComparedWithTheCores) {
  std::vector<JobHistory> jobs = some_jobs();
  for (JobHistory& job : jobs) job.attempts[0].cpus = 3;
  jobs[0].attempts[0].cpu_s = 40;  // 4 cores for 10 s
  jobs[1].attempts[0].cpu_s = 12;
  const CpuUse cpu = efficiency_of(jobs, timeline_of(jobs, kStart), 4).cpu;
  EXPECT_DOUBLE_EQ(cpu.most_shares, 6);
  EXPECT_DOUBLE_EQ(cpu.beyond_cores_s, 10);
  EXPECT_DOUBLE_EQ(cpu.most_used, 5);
  EXPECT_EQ(cpu.over_share, 1u);
  EXPECT_EQ(cpu.unknown, 1u);
}

TEST(Efficiency, AnAttemptOfNoTimeIsNotOneWhoseUseNobodyKnows) {
  std::vector<JobHistory> jobs = some_jobs();
  for (JobHistory& job : jobs) job.attempts[0].cpu_s = 1;
  jobs.push_back(history(4, 1, "evaluate", attempt("ok", "gpu1", 12, 12)));
  jobs.push_back(history(5, 2, "train", attempt("exit", "gpu1", 13, 13)));
  jobs.back().attempts[0].cpu_s = 0.001;
  EXPECT_EQ(efficiency_of(jobs, timeline_of(jobs, kStart), 4).cpu.unknown, 0u);
  jobs[0].attempts[0].cpu_s.reset();
  EXPECT_EQ(efficiency_of(jobs, timeline_of(jobs, kStart), 4).cpu.unknown, 1u);
}

TEST(HtmlText, IsNeverMarkup) {
  EXPECT_EQ(html_text("<b a=\"1\" c='2'>&amp;"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("a\x1b[31mred\x07\n\xff"), "ared\\x07 \\xff");
  EXPECT_EQ(script_json(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script>\u003c!--"})");
}

TEST(HtmlTable, HasAHeadAndOneRowForEach) {
  HtmlTable table("t", "a & b", {"<x>", "y"});
  table.add({number_cell("1.5"), state_cell("failed")});
  EXPECT_EQ(table.take(),
            "<div class=\"scroll\"><table id=\"t\" class=\"sortable\">\n"
            "<caption>a &amp; b</caption>\n"
            "<thead><tr><th scope=\"col\">&lt;x&gt;</th><th scope=\"col\">y</th></tr></thead>\n"
            "<tbody>\n<tr><td class=\"n\">1.5</td>"
            "<td><span class=\"mark bad\">failed</span></td></tr>\n</tbody></table></div>\n");
}

TEST(SvgNumber, IsShort) {
  EXPECT_EQ(svg_number(1.0 / 3), "0.33");
  EXPECT_EQ(svg_number(100), "100");
  EXPECT_EQ(svg_number(0.5), "0.5");
  EXPECT_EQ(svg_number(-0.001), "0");
}

std::string gantt_of(const std::vector<JobHistory>& jobs) {
  const Timeline timeline = timeline_of(jobs, kStart + 20 * kSecond);
  const std::vector<std::string> steps = {"train", "evaluate"};
  const std::vector<double> shares(timeline.rows.size(), 0.5);
  return gantt_svg({.jobs = jobs, .timeline = timeline, .steps = steps, .shares = shares});
}

std::string legend_of(const std::vector<JobHistory>& jobs) {
  const Timeline timeline = timeline_of(jobs, kStart + 20 * kSecond);
  const std::vector<std::string> steps = {"train"};
  const std::vector<double> shares;
  return gantt_legend({.jobs = jobs, .timeline = timeline, .steps = steps, .shares = shares});
}

TEST(Gantt, DrawsABarForEachAttemptInItsLane) {
  std::vector<JobHistory> jobs = some_jobs();
  jobs[1].attempts[0].cls = "exit";
  const std::string svg = gantt_of(jobs);
  EXPECT_EQ(count(svg, "<rect class=\"bar"), 3u);
  EXPECT_EQ(count(svg, "<rect class=\"bar failed\""), 1u);
  EXPECT_EQ(count(svg, "<rect class=\"bar s1\" x=\"880\" y=\"27\" width=\"250\" height=\"18\">"),
            1u)
      << svg;
  EXPECT_NE(svg.find(">gpu0 <tspan class=\"share\">50 %</tspan>"), std::string::npos);
  EXPECT_NE(svg.find("<title>0-lr/evaluate attempt 1: ok, 4.0s, 13:00:12 to 13:00:16</title>"),
            std::string::npos);
  EXPECT_EQ(gantt_of({}), "");
}

TEST(Gantt, BarsTooNarrowToBeSeenApartAreOne) {
  std::vector<JobHistory> jobs = {history(1, 0, "train", attempt("ok", "gpu0", 0, 1'000'000))};
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(history(2 + i, 1 + i, "train", attempt("ok", "gpu1", 10 * i, 10 * i + 1)));
  }
  jobs.back().attempts[0].cls = "exit";
  const std::string svg = gantt_of(jobs);
  EXPECT_LT(count(svg, "<rect class=\"bar"), 10u);
  EXPECT_NE(svg.find(" attempts, 1 failed, "), std::string::npos);
}

TEST(Gantt, AStripTellsHowBusyTheGpuWas) {
  std::vector<JobHistory> jobs = some_jobs();
  AttemptFacts& first = jobs[0].attempts[0];
  first.usage.gpu_busy_percent = AttemptUsage::Extent{.mean = 50, .most = 99.6};
  for (int i = 0; i < 10; ++i) {
    if (i == 4) continue;  // a reading that failed
    first.series.push_back({.begin_ns = kStart + i * kSecond,
                            .end_ns = kStart + (i + 1) * kSecond,
                            .gpu_busy_percent = i < 4 ? 95 : 10});
  }
  jobs[2].attempts[0].usage.gpu_busy_percent =
      AttemptUsage::Extent{.mean = 30, .most = 40};  // no series: its mean
  const std::string svg = gantt_of(jobs);
  EXPECT_EQ(count(svg, "<rect class=\"heat"), 3u) << svg;
  // 10 of 16 s are 625 wide: 4 s of 95 %, a gap of 1 s, 5 s of 10 %.
  EXPECT_EQ(count(svg, "<rect class=\"heat h4\" x=\"130\" y=\"46\" width=\"250"), 1u) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"heat h0\" x=\"44"), 1u) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"heat h1\" x=\"880\" y=\"46\" width=\"250\" height=\"4\"/>"),
            1u)
      << svg;
  EXPECT_NE(svg.find("13:00:00 to 13:00:10; GPU 50 % busy on average, 100 % at most</title>"),
            std::string::npos)
      << svg;
}

TEST(Gantt, OnLanesWithoutAGpuAStripIsCoresAgainstThosePromised) {
  std::vector<JobHistory> jobs = {history(1, 0, "train", attempt("ok", "cpu0", 0, 10)),
                                  history(2, 1, "train", attempt("ok", "cpu1", 0, 10)),
                                  history(3, 2, "train", attempt("ok", "cpu2", 0, 10))};
  for (JobHistory& job : jobs)
    job.attempts[0].usage.cores = AttemptUsage::Extent{.mean = 3, .most = 4};
  jobs[0].attempts[0].cpus = 4;
  jobs[1].attempts[0].cpus = 2;  // and of the third nobody knows what it was promised
  const std::string svg = gantt_of(jobs);
  EXPECT_EQ(count(svg, "<rect class=\"heat"), 2u) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"heat h3\""), 1u);
  EXPECT_EQ(count(svg, "<rect class=\"heat h5\""), 1u);
  EXPECT_NE(svg.find("; 3.00 of 4 cores on average, 4.00 at most</title>"), std::string::npos);
  EXPECT_NE(svg.find("; 3.00 cores on average, 4.00 at most</title>"), std::string::npos);
}

TEST(Gantt, TheLegendExplainsStripsWhereThereAreAny) {
  std::vector<JobHistory> jobs = some_jobs();
  EXPECT_EQ(legend_of(jobs).find("heat"), std::string::npos);
  jobs[0].attempts[0].usage.gpu_busy_percent = AttemptUsage::Extent{.mean = 50, .most = 99};
  EXPECT_EQ(count(legend_of(jobs), "class=\"heat h"), 6u);
}

TEST(Gantt, TheStripOfBarsDrawnAsOneIsTheirMean) {
  std::vector<JobHistory> jobs = {history(1, 0, "train", attempt("ok", "gpu0", 0, 1'000'000))};
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(history(2 + i, 1 + i, "train", attempt("ok", "gpu1", 2 * i, 2 * i + 1)));
    jobs.back().attempts[0].usage.gpu_busy_percent =
        AttemptUsage::Extent{.mean = i % 2 == 0 ? 0.0 : 100.0, .most = 100};
  }
  const std::string svg = gantt_of(jobs);
  EXPECT_EQ(count(svg, "<rect class=\"bar"), 2u) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"heat h2\""), 1u) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"heat"), 1u) << svg;
}

TEST(Plots, PlaceNumbersByValueAndWordsInARow) {
  const std::vector<std::string> runs = {"a", "b", "c"};
  const PlotColumn rate{.name = "lr", .texts = {"0.001", "0.01", "1"}};
  const PlotColumn method{.name = "method", .texts = {"edm", "flow", "<b>"}};
  const PlotColumn loss{.name = "loss", .texts = {"1", "nan", "3"}};
  const std::string html = plots_html({rate, method}, {loss}, runs);
  EXPECT_EQ(count(html, "<svg"), 2u);
  EXPECT_NE(html.find("<figcaption>loss by lr (log)</figcaption>"), std::string::npos);
  EXPECT_EQ(count(html, "<circle"), 4u);
  EXPECT_EQ(count(html, "1 not shown: no value"), 2u);
  EXPECT_NE(html.find("<title>a: lr 0.001, loss 1</title>"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(plots_html({rate}, {}, runs), "");
  EXPECT_EQ(plots_html({}, {loss}, runs), "");
  EXPECT_EQ(plots_html({rate}, {{.name = "same", .texts = {"1", "1", "1"}}}, runs), "");
}

TEST(Plots, PointsOnOneSpotAreDrawnOnce) {
  PlotColumn x{.name = "x", .texts = {"1", "2"}};
  PlotColumn y{.name = "y", .texts = {"1", "2"}};
  std::vector<std::string> runs = {"a", "b"};
  for (int i = 0; i < 500; ++i) {
    x.texts.push_back("2");
    y.texts.push_back("2");
    runs.push_back("more");
  }
  const std::string html = plots_html({x}, {y}, runs);
  EXPECT_EQ(count(html, "<circle"), 2u);
  EXPECT_NE(html.find("; and 500 more here"), std::string::npos);
}

TEST(ReportPage, KeepsForeignTextsAsTexts) {
  const std::string evil = "<script>alert(1)</script>\x1b]0;x\x07\"'&\n<!--";
  std::vector<JobHistory> jobs = some_jobs();
  JobHistory& failed = jobs[1];
  failed.job.run = "1-" + evil;
  failed.job.state = "failed";
  failed.job.cls = evil;
  failed.job.reason = evil;
  failed.job.log = "/runs/" + evil;
  failed.job.warnings = {evil};
  failed.attempts[0].reason = evil;
  failed.attempts[0].cls = evil;
  failed.params = {{"lr", json(evil).dump()}, {evil, "1"}};
  failed.metrics = {{evil, json(evil).dump()}, {"loss", "2"}};
  jobs[0].params = {{"lr", "0.1"}, {evil, json(evil).dump()}};
  jobs[0].metrics = {{"loss", "1"}};
  Report report = report_of(std::move(jobs));
  report.tails[2] = {evil, "plain"};
  report.sweep.name = evil;
  report.sweep.root = evil;
  report.sweep.warnings = {evil};
  report.selector = evil;
  report.machine.host = evil;
  report.machine.gpus = {{.uuid = evil, .name = evil, .pci = evil, .state = evil}};
  const std::string page = report_page(report);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(count(page, "<script"), 2u);  // data, and the sorting
  EXPECT_EQ(count(page, "</script"), 2u);
  EXPECT_EQ(count(page, "<!--"), 0u);
  EXPECT_TRUE(std::none_of(page.begin(), page.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
  }));
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;\\x1b]0;x\\x07"), std::string::npos);
}

TEST(ReportPage, RefersToNothingOutside) {
  const std::string page = report_page(report_of(some_jobs()));
  for (const char* outside : {"src=", "href=\"http", "url(http", "@import", "<link", "<iframe"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("content=\"default-src 'none'; "), std::string::npos);
  EXPECT_EQ(page.find(" style="), std::string::npos);  // the policy would not allow it
  EXPECT_EQ(page.find(" onclick="), std::string::npos);
}

json data_of(const std::string& page) {
  const std::string head = "<script type=\"application/json\" id=\"pergpu-data\">";
  const std::size_t begin = page.find(head) + head.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(ReportPage, HoldsItsDataAsJson) {
  const json data = data_of(report_page(report_of(some_jobs())));
  EXPECT_EQ(data["schema"], 1);
  EXPECT_EQ(data["jobs"].size(), 3u);
  EXPECT_EQ(data["efficiency"]["makespan_s"], 16.0);
  EXPECT_EQ(data["efficiency"]["lower_bound_s"], 14.0);
  EXPECT_EQ(data["lanes"][0]["busy_share"], 14.0 / 16);
  EXPECT_EQ(data["machine"]["cores"], 4);
}

TEST(ReportPage, TellsWhatAttemptsUsedAsATableAndAsJson) {
  std::vector<JobHistory> jobs = some_jobs();
  AttemptFacts& first = jobs[0].attempts[0];
  first.usage = {.cores = AttemptUsage::Extent{.mean = 1.5, .most = 2},
                 .resident_bytes = AttemptUsage::Extent{.mean = 1000, .most = 4096},
                 .gpu_busy_percent = AttemptUsage::Extent{.mean = 91.5, .most = 100},
                 .gpu_memory_bytes = AttemptUsage::Extent{.mean = 5e9, .most = 6e9}};
  Report report = report_of(std::move(jobs));
  report.without_series = 7;
  const std::string page = report_page(report);
  EXPECT_NE(page.find("<th scope=\"col\">GPU busy percent</th>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"n\">1.50</td><td class=\"n\"></td><td class=\"n\">4096</td>"
                      "<td class=\"n\">91.5</td><td class=\"n\">6000000000</td>"),
            std::string::npos);
  EXPECT_NE(page.find("for 7 more long attempts"), std::string::npos);
  const json data = data_of(page);
  const json usage = {{"mean",
                       {{"cores", 1.5},
                        {"resident_bytes", 1000},
                        {"gpu_busy_percent", 91.5},
                        {"gpu_memory_bytes", 5'000'000'000}}},
                      {"most",
                       {{"cores", 2.0},
                        {"resident_bytes", 4096},
                        {"gpu_busy_percent", 100.0},
                        {"gpu_memory_bytes", 6'000'000'000}}}};
  EXPECT_EQ(data["jobs"][0]["attempts"][0]["usage"], usage);
  EXPECT_EQ(data["jobs"][1]["attempts"][0]["usage"], nullptr);
}

TEST(ReportPage, CallsLanesAsPeopleDo) {
  const std::string page =
      report_page(report_of({history(1, 0, "train", attempt("ok", "gpu0", 0, 1)),
                             history(2, 0, "evaluate", attempt("ok", "cpu0", 1, 2)),
                             history(3, 1, "train", attempt("ok", "lane0", 0, 3))}));
  for (const char* words : {"work on GPU lanes, seconds", "work on CPU lanes, seconds",
                            "work on the sweep&#39;s own lanes, seconds", "GPU lanes used",
                            "the sweep&#39;s own lanes used"}) {
    EXPECT_NE(page.find(words), std::string::npos) << words;
  }
}

TEST(ReportPage, OfASweepThatHasNotBegunSaysSo) {
  JobHistory queued;
  queued.job.id = 1;
  queued.job.step = "train";
  queued.job.state = "queued";
  queued.job.index = 0;
  const std::string page = report_page(report_of({queued}));
  EXPECT_NE(page.find("Nothing has run yet."), std::string::npos);
  EXPECT_NE(page.find("No attempts yet."), std::string::npos);
  EXPECT_NE(page.find("<b>0 of 1</b>jobs done"), std::string::npos);
  EXPECT_EQ(page.find("utili"), std::string::npos);  // nothing is said of what is not measured
}

}  // namespace
}  // namespace pergpu::view
