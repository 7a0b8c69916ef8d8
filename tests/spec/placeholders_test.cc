#include "spec/templates/placeholders.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arbitrary.h"
#include "spec/templates/argument_words.h"

namespace pergpu {
namespace {

class Placeholders : public testing::Test {
 protected:
  Placeholders() {
    run_.json = R"({"layers":[64,64],"lr":0.0001,"name":"two words","seed":3})";
    run_.texts = R"({"lr":"1e-4"})";
    Result<RenderScope> scope = scope_of(run_);
    EXPECT_TRUE(scope);
    scope_ = *std::move(scope);
    scope_.out = "/o";
    scope_.config = "/o/config.json";
    scope_.metrics = "/o/metrics.jsonl";
    scope_.run_folder = "03-seed=3";
    scope_.index = 3;
    scope_.attempt = 2;
    scope_.step_out = [](std::string_view step) {
      return step == "train" ? std::string("/runs/train") : std::string();
    };
  }
  std::string rendered(const std::string& text) const {
    Result<std::string> out = render(text, scope_);
    return out ? *out : "error: " + out.error().message;
  }

  RunSpec run_;
  RenderScope scope_;
};

TEST_F(Placeholders, ParametersAppearAsWritten) {
  EXPECT_EQ(rendered("--lr={lr} {seed}"), "--lr=1e-4 3");
  EXPECT_EQ(rendered("{name}"), "two words");
  EXPECT_EQ(rendered("{layers}"), "[64,64]");
}

TEST_F(Placeholders, BuiltinsAreKnown) {
  EXPECT_EQ(rendered("{config} {out} {metrics} {run} {index} {attempt} {train.out}"),
            "/o/config.json /o /o/metrics.jsonl 03-seed=3 3 2 /runs/train");
  EXPECT_EQ(rendered("{json}"), run_.json);
}

TEST_F(Placeholders, OtherBracesStay) {
  EXPECT_EQ(rendered(R"({"a": {"b": 1} })"), R"({"a": {"b": 1} })");
  EXPECT_EQ(rendered("{ lr } {} {1} {lr-x} {a.} {.a} { {"), "{ lr } {} {1} {lr-x} {a.} {.a} { {");
  EXPECT_EQ(rendered("{{lr}} {{{lr}}}"), "{lr} {1e-4}");
  EXPECT_EQ(rendered(R"({"lr": {lr}})"), R"({"lr": 1e-4})");
  EXPECT_EQ(rendered("{"), "{");
}

TEST_F(Placeholders, ValuesAreNeverScannedAgain) {
  run_.json = R"({"x":"{out} {{"})";
  scope_.parameters = *RunParameters::parse(run_);
  EXPECT_EQ(rendered("{x}"), "{out} {{");
}

TEST_F(Placeholders, UnknownNamesAreErrorsThatNameThem) {
  EXPECT_EQ(rendered("{lrr}").rfind("error: placeholder {lrr}", 0), 0U);
  EXPECT_EQ(rendered("{test.out}").rfind("error: placeholder {test.out}", 0), 0U);
  EXPECT_EQ(rendered("{runs}").rfind("error: placeholder {runs}", 0), 0U);
}

TEST_F(Placeholders, OnceStepsKnowAllRunsAndNoRun) {
  RenderScope once;
  once.out = "/once";
  once.runs_lines = [] { return runs_lines({{.json = "{\"a\":1}"}, {.json = "{\"a\":2}"}}); };
  EXPECT_EQ(*render("{out} {runs}", once), "/once {\"a\":1}\n{\"a\":2}\n");
  for (const char* text : {"{config}", "{json}", "{run}", "{index}"})
    EXPECT_FALSE(render(text, once)) << text;
}

TEST_F(Placeholders, ArgvOfAShellStepPastesNothing) {
  StepSpec step;
  step.shell = "echo ${X} {lr} {{";
  Result<std::vector<std::string>> argv = render_argv(step, scope_);
  ASSERT_TRUE(argv);
  EXPECT_EQ(*argv, (std::vector<std::string>{"/bin/sh", "-c", "echo ${X} {lr} {{"}));
}

TEST_F(Placeholders, AValueWithSpacesStaysOneArgument) {
  StepSpec step;
  step.command = {"train", "--name", "{name}"};
  EXPECT_EQ(*render_argv(step, scope_), (std::vector<std::string>{"train", "--name", "two words"}));
}

TEST_F(Placeholders, ArgsAndOverridesAreAWordForEachParameter) {
  StepSpec step;
  step.command = {"train", "{args}", "end"};
  EXPECT_EQ(*render_argv(step, scope_),
            (std::vector<std::string>{"train", "--layers=[64,64]", "--lr=1e-4", "--name=two words",
                                      "--seed=3", "end"}));
  step.command = {"train", "{overrides}"};
  EXPECT_EQ(
      *render_argv(step, scope_),
      (std::vector<std::string>{"train", "layers=[64,64]", "lr=1e-4", "name=two words", "seed=3"}));
  EXPECT_FALSE(render("{args}", scope_));
  step.command = {"train", "{args}"};
  EXPECT_FALSE(render_argv(step, RenderScope())) << "a once-step has no parameters";
}

TEST(ArgumentWords, OfTablesHaveDotsAndNullIsNoOption) {
  const RunSpec run{
      .json = R"({"a":null,"m":{"b":{"c":1.0},"d":null,"e":{}},"t":true,"x":"--y z"})",
      .texts = R"({"t":"True"})"};
  const RenderScope scope = *scope_of(run);
  EXPECT_EQ(*argument_words(run.json, scope.parameters, ArgumentStyle::Options),
            (std::vector<std::string>{"--m.b.c=1.0", "--m.e={}", "--t=True", "--x=--y z"}));
  EXPECT_EQ(
      *argument_words(run.json, scope.parameters, ArgumentStyle::Overrides),
      (std::vector<std::string>{"a=null", "m.b.c=1.0", "m.d=null", "m.e={}", "t=True", "x=--y z"}));
}

TEST_F(Placeholders, ArgsOfAShellStepArePositionalParameters) {
  StepSpec step;
  step.shell = "train ${args} {args} | tee x; again {args}";
  EXPECT_EQ(*render_argv(step, scope_),
            (std::vector<std::string>{"/bin/sh", "-c", "train ${args} \"$@\" | tee x; again \"$@\"",
                                      "/bin/sh", "--layers=[64,64]", "--lr=1e-4",
                                      "--name=two words", "--seed=3"}));
}

TEST_F(Placeholders, AParameterCalledArgsTakesItsPlace) {
  run_.json = R"({"args":"--fast"})";
  run_.texts.clear();
  scope_ = *scope_of(run_);
  StepSpec step;
  step.command = {"train", "{args}"};
  EXPECT_EQ(*render_argv(step, scope_), (std::vector<std::string>{"train", "--fast"}));
  EXPECT_EQ(rendered("-{args}-"), "---fast-");
  step.command.clear();
  step.shell = "train {args}";
  EXPECT_EQ(render_argv(step, scope_)->size(), 3U);
}

TEST_F(Placeholders, ParametersBecomeEnvironmentVariables) {
  std::vector<std::pair<std::string, std::string>> env = param_env(scope_.parameters);
  ASSERT_EQ(env.size(), 4U);
  EXPECT_EQ(env[1], (std::pair<std::string, std::string>("PERGPU_PARAM_LR", "1e-4")));
  EXPECT_EQ(env[2].second, "two words");
}

TEST_F(Placeholders, RunsAreNoticedInEveryTemplateOfAStep) {
  StepSpec step;
  step.command = {"x", "{{runs}} {out}"};
  EXPECT_FALSE(uses_runs(step));
  step.env = {{"A", "-{runs}-"}};
  EXPECT_TRUE(uses_runs(step));
}

TEST(Template, WithDoubledBracesRendersToTheTextItself) {
  EXPECT_TRUE(rc::check([] {
    std::string text = *arbitrary_text();
    std::string doubled;
    for (char c : text) {
      doubled += c;
      if (c == '{' || c == '}') doubled += c;
    }
    RC_ASSERT(!has_placeholders(doubled));
    RC_ASSERT(*render(doubled, RenderScope()) == text);
  }));
}

TEST(RunParameters, OfADamagedRunAreCorrupt) {
  for (const char* json : {"", "[]", "{\"a\"}", "{\"a\":1", "{\"a\":01}", "{\"a\":tru}", "{} {}"}) {
    Result<RunParameters> parameters = RunParameters::parse({.json = json});
    ASSERT_FALSE(parameters) << json;
    EXPECT_EQ(parameters.error().kind, ErrorKind::Corrupt);
  }
}

TEST(RunParameters, AreTheValuesOfAnyJsonObject) {
  EXPECT_TRUE(rc::check([] {
    nlohmann::json object = nlohmann::json::object();
    for (const std::string& key : *rc::gen::container<std::vector<std::string>>(arbitrary_text()))
      object[key] = *arbitrary_json(2);
    Result<RunParameters> parameters = RunParameters::parse({.json = canonical_json(object)});
    RC_ASSERT(static_cast<bool>(parameters));
    RC_ASSERT(parameters->all().size() == object.size());
    for (const auto& [key, value] : object.items()) {
      const std::string* text = parameters->text(key);
      RC_ASSERT(text != nullptr);
      RC_ASSERT(*text == (value.is_string() ? value.get<std::string>() : canonical_json(value)));
    }
  }));
}

}  // namespace
}  // namespace pergpu
