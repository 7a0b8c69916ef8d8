// What goes to a node comes out there as it went in; what is damaged is refused with its line.
#include "store/handover.h"

#include <gtest/gtest.h>

#include "store/end_request.h"

namespace pergpu::store {
namespace {

Handover some() {
  Handover h{.key = "s-0123",
             .from = "login1:/state/pergpu/m",
             .lanes = 2,
             .jobs_each = 3,
             .at_wall_ns = 1'700'000'000'000'000'000,
             .last_start_ms = 90'000,
             .node = "n7",
             .sweep = {.id = {3},
                       .root = "/data/\"runs\"",
                       .name = "s",
                       .spec = R"({"name":"s","x":[1,2]})",
                       .submit = R"({"cwd":"/data"})",
                       .at = {1, 2}}};
  h.runs = {{.sweep = {3}, .index = 0, .folder = "00-x=1", .json = R"({"x":1})", .texts = ""},
            {.sweep = {3}, .index = 7, .folder = "07-x=é", .json = R"({"x":"é"})", .texts = "{}"}};
  HandedJob job{.job = {.id = {17},
                        .sweep = {3},
                        .run = 7,
                        .step = 1,
                        .step_name = "evaluate",
                        .identity = {1, 2, 3, 250},
                        .at = {5, 6}},
                .state = {.state = JobState::Queued, .queued_at = {5, 6}},
                .task = 7};
  job.needs = {{{16}, "/data/runs/s/07-x=é/train"}};
  h.needs = {{{14}, "/data/runs/s/06-x=1/train"}, {{15}, "/data/runs/s/08-x=2/train"}};
  h.jobs = {job};
  job.job.id = {18};
  job.state.attempts = 2;
  job.state.last = {{.number = 2, .outcome = Outcome{.cls = OutcomeClass::Exit, .exit_code = 1}}};
  h.jobs.push_back(job);
  return h;
}

TEST(Handover, ComesOutAsItWentIn) {
  const Handover in = some();
  const Result<Handover> out = handover_of(to_text(in));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->key, in.key);
  EXPECT_EQ(out->from, in.from);
  EXPECT_EQ(out->lanes, in.lanes);
  EXPECT_EQ(out->jobs_each, in.jobs_each);
  EXPECT_EQ(out->at_wall_ns, in.at_wall_ns);
  EXPECT_EQ(out->last_start_ms, in.last_start_ms);
  EXPECT_EQ(out->needs, in.needs);
  EXPECT_EQ(out->node, in.node);
  EXPECT_EQ(out->sweep.spec, in.sweep.spec);
  EXPECT_EQ(out->sweep.submit, in.sweep.submit);
  EXPECT_EQ(out->sweep.root, in.sweep.root);
  ASSERT_EQ(out->runs.size(), 2u);
  EXPECT_EQ(out->runs[1].index, 7);
  EXPECT_EQ(out->runs[1].folder, "07-x=é");
  EXPECT_EQ(out->runs[1].json, in.runs[1].json);
  EXPECT_EQ(out->jobs, in.jobs);
}

TEST(Handover, RefusesWhatIsDamaged) {
  const std::string text = to_text(some());
  const std::size_t half = text.find('\n', text.size() / 2);
  const Result<Handover> cut = handover_of(text.substr(0, half + 1));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::Corrupt);
  EXPECT_NE(cut.error().message.find("unexpected end"), std::string::npos) << cut.error().message;

  std::string newer = text;
  newer.replace(newer.find("\"handover\":1"), 12, "\"handover\":2");
  EXPECT_FALSE(handover_of(newer));
  for (const char* number : {"1e30", "5000000000", "0.5", "-99999999999999999999"}) {
    std::string odd = text;
    const std::size_t at = odd.find("\"lanes\":") + 8;
    odd.replace(at, odd.find_first_of(",}", at) - at, number);
    EXPECT_FALSE(handover_of(odd)) << number;
  }
  EXPECT_FALSE(handover_of(""));
  EXPECT_FALSE(handover_of(std::string(100'000, '[')));
}

TEST(EndRequest, ComesOutAsItWentIn) {
  const EndRequests in = {
      .jobs = {{{17}, false, true, "stopped by \"you\""}, {{18}, true, false, ""}},
      .was_held = true};
  const auto out = end_requests_of(to_text(in));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(*out, in);
  EXPECT_FALSE(end_requests_of("{}"));
  EXPECT_FALSE(end_requests_of(R"({"end":[{"job":"17"}]})"));
}

}  // namespace
}  // namespace pergpu::store
