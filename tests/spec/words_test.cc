// Words of the command line and cells of CSV files: what they are, and that they stay what was
// written.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "arbitrary.h"
#include "spec/readers/readers.h"
#include "spec/runs/param_value.h"
#include "spec/schema/command_line.h"
#include "spec/schema/emit.h"
#include "spec/sweep/earlier_reading.h"
#include "spec/text/number_text.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

using Strings = std::vector<std::string>;

/// The JSON of a word as a parameter.
std::string json_of(const std::string& word) {
  Report report;
  report.add_source("", "");
  std::optional<ParamValue> value = param_value(report, "p", typed_text(word, {}));
  return value ? value->json : "refused";
}

ParsedSweep run(const Strings& words, const Strings& lists = {}) {
  CommandLineOptions options;
  options.folder = "/home/u";
  options.lists = lists;
  return sweep_from_command_line(options, words);
}

/// The values that {name} stands for in all runs.
Strings texts_of(const SweepSpec& sweep, const std::string& name) {
  Strings out;
  for (const RunSpec& row : sweep.runs) {
    Result<RunParameters> parameters = RunParameters::parse(row);
    const std::string* text = parameters ? parameters->text(name) : nullptr;
    out.push_back(text == nullptr ? "absent" : *text);
  }
  return out;
}

TEST(NumberWord, IsANumberInItsUsualSpellings) {
  for (const auto& [word, json] : std::vector<std::pair<std::string, std::string>>{
           {"0", "0"},
           {"-3", "-3"},
           {"18446744073709551615", "18446744073709551615"},
           {"123456789012345678901234567890", "123456789012345678901234567890"},
           {"0.1", "0.1"},
           {"1.0", "1.0"},
           {"0.0", "0.0"},
           {"-0.0", "-0.0"},
           {"100.0", "100.0"},
           {"0.0000001", "1e-7"},
           {"1e-4", "0.0001"},
           {"1E-04", "0.0001"},
           {"1e-05", "0.00001"},
           {"1.0e-4", "0.0001"},
           {"2.5e-3", "0.0025"},
           {"15e-5", "0.00015"},
           {"1e5", "100000.0"},
           {"1e+22", "1e+22"},
           {"3.141592653589793", "3.141592653589793"}})
    EXPECT_EQ(json_of(word), json) << word;
}

TEST(NumberWord, IsATextWhereANumberWouldLoseWhatWasWritten) {
  for (const char* word :
       {"3.10",   "1.50",      "0.10",    "1.00",    "007",     "00",
        "-0",     "+5",        ".5",      "5.",      "0x10",    "0o17",
        "1_000",  "1,000",     "1:30",    "0e11111", "0e22222", "12e4567",
        "2e1234", "83e2010",   "1e00005", "0e5",     "1e999",   "1e-999",
        "nan",    "inf",       "-inf",    "NaN",     "1e",      "e5",
        "1.5e",   "1e5.0",     "٣",       " 1",      "1 ",      "3.14159265358979323846",
        "yes",    "no",        "on",      "off",     "Null",    "~",
        "nil",    "2024-01-02"})
    EXPECT_EQ(json_of(word), "\"" + std::string(word) + "\"") << word;
}

TEST(NumberWord, TruthAndNullAreThoseOfJsonPythonAndSpreadsheets) {
  for (const char* word : {"true", "True", "TRUE"}) EXPECT_EQ(json_of(word), "true");
  for (const char* word : {"false", "False", "FALSE"}) EXPECT_EQ(json_of(word), "false");
  for (const char* word : {"null", "None"}) EXPECT_EQ(json_of(word), "null");
}

RC_GTEST_PROP(NumberWordProperty, NoCommitHashOfSevenLettersIsAFloat, ()) {
  const auto digit = rc::gen::elementOf(std::string("0123456789e"));
  const std::string hash = *rc::gen::container<std::string>(7, digit);
  RC_ASSERT(number_word(hash) != NumberWord::Float);
}

RC_GTEST_PROP(NumberWordProperty, WhatJsonWritesIsTheSameNumber, ()) {
  const double value =
      *rc::gen::suchThat(rc::gen::arbitrary<double>(), [](double d) { return std::isfinite(d); });
  const std::string text = float_text(value);
  RC_ASSERT(number_word(text) == NumberWord::Float);
  RC_ASSERT(json_of(text) == text);
}

RC_GTEST_PROP(WordsProperty, DifferentWordsAreDifferentRunsAndAppearAsTheyWereWritten, ()) {
  const auto piece = rc::gen::elementOf(Strings{
      "0",    "1",      "2",    ".",     "e",        "E",   "-",    "+",    "x",    "00",
      "1e-4", "0.0001", "1E-4", "1e-04", "100000.0", "1e5", "true", "True", "None", "null"});
  const auto word =
      rc::gen::map(rc::gen::nonEmpty(rc::gen::resize(3, rc::gen::container<Strings>(piece))),
                   [](const Strings& pieces) {
                     std::string text;
                     for (const std::string& p : pieces) text += p;
                     return text;
                   });
  const auto unique = *rc::gen::nonEmpty(rc::gen::container<std::set<std::string>>(word));
  const Strings words(unique.begin(), unique.end());
  Strings typed = {"t", "{1}", ":::"};
  typed.insert(typed.end(), words.begin(), words.end());
  const ParsedSweep parsed = run(typed);
  RC_ASSERT(parsed.sweep.has_value());
  RC_ASSERT(texts_of(*parsed.sweep, "arg1") == words);
  std::set<std::string> jsons;
  for (const RunSpec& row : parsed.sweep->runs) RC_ASSERT(jsons.insert(row.json).second);
}

TEST(Words, ThatStandForTheSameNumberAreToldApart) {
  EXPECT_EQ(
      jsons(*run({"t", ":::", "1e-4", "0.0001", "1E-4", "1"}).sweep),
      (Strings{R"({"arg1":"1e-4"})", R"({"arg1":0.0001})", R"({"arg1":"1E-4"})", R"({"arg1":1})"}));
  EXPECT_EQ(jsons(*run({"t", ":::", "1", "1.0"}).sweep),
            (Strings{R"({"arg1":1})", R"({"arg1":1.0})"}));
  EXPECT_EQ(jsons(*run({"t", ":::", "true", "True"}).sweep),
            (Strings{R"({"arg1":true})", R"({"arg1":"True"})"}));
}

TEST(Words, TwiceAreRefusedWithTheWayToRepeat) {
  const std::string text = to_text(run({"t", ":::", "1e-4", "1e-4"}).diagnostics);
  EXPECT_NE(text.find("`arg1` has the value 0.0001 twice"), std::string::npos) << text;
  EXPECT_NE(text.find("-g repeat=1..3"), std::string::npos) << text;
}

TEST(Words, OfTextsKeepTheirBytes) {
  const ParsedSweep parsed = run({"t", ":::", "\u00e9", "e\u0301", " a", "a", "a "});
  ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
  EXPECT_EQ(texts_of(*parsed.sweep, "arg1"), (Strings{"\u00e9", "e\u0301", " a", "a", "a "}));
}

TEST(EarlierReading, IsThatOfTheVersionsBefore) {
  const auto of_words = [](const std::string& list) {
    const Result<RunSpec> earlier = earlier_reading(run({"t"}, {list}).sweep->runs[0], true);
    return earlier ? earlier->json + earlier->texts : earlier.error().message;
  };
  EXPECT_EQ(of_words("v=3.10"), R"({"v":3.1}{"v":"3.10"})");
  EXPECT_EQ(of_words("v=1.0"), R"({"v":1}{"v":"1.0"})");
  EXPECT_EQ(of_words("v=9007199254740993"), R"({"v":"9007199254740993"})");
  EXPECT_EQ(of_words("v=True"), R"({"v":"True"})");
  EXPECT_EQ(of_words("v=None"), R"({"v":"None"})");
  EXPECT_EQ(of_words("v=null"), R"({"v":"null"})");
  EXPECT_EQ(of_words("v=0e5"), R"({"v":0}{"v":"0e5"})");
  EXPECT_EQ(of_words("v=1e5"), R"({"v":100000}{"v":"1e5"})");
  EXPECT_EQ(of_words("v=[[1.0,2]]"), R"({"v":[1,2]})");
  for (const char* same : {"v=1", "v=1e-4", "v=0.1", "v=x", "v=007", "v=1e999", "v=true"}) {
    const RunSpec row = run({"t"}, {same}).sweep->runs[0];
    EXPECT_EQ(*earlier_reading(row, true), row) << same;
  }
  const RunSpec file = good(parse_toml("[constants]\nf = 1.0\ng = { a = [2.0] }\nh = 3\ni = 0x10\n"
                                       "j = \"3.10\"\nk = 1_0.0\n" +
                                       std::string(kStep)))
                           .runs[0];
  const Result<RunSpec> earlier = earlier_reading(file, false);
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->json, R"({"f":1,"g":{"a":[2]},"h":3,"i":16,"j":"3.10","k":10})");
  EXPECT_EQ(earlier->texts, R"({"f":"1.0","i":"0x10","k":"1_0.0"})");
  EXPECT_FALSE(earlier_reading({.json = "{"}, false));
}

TEST(WordList, OfDotsIsARangeWithBothEnds) {
  const auto values = [](const std::string& list) {
    ParsedSweep parsed = run({"t", "{v}"}, {"v=" + list});
    EXPECT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
    return parsed.sweep ? texts_of(*parsed.sweep, "v") : Strings();
  };
  EXPECT_EQ(values("0..3"), (Strings{"0", "1", "2", "3"}));
  EXPECT_EQ(values("{0..3}"), (Strings{"0", "1", "2", "3"}));
  EXPECT_EQ(values("3..1"), (Strings{"3", "2", "1"}));
  EXPECT_EQ(values("-1..1"), (Strings{"-1", "0", "1"}));
  EXPECT_EQ(values("0..10..5"), (Strings{"0", "5", "10"}));
  EXPECT_EQ(values("08..11"), (Strings{"08", "09", "10", "11"}));
  EXPECT_EQ(values("0..1,7,x"), (Strings{"0", "1", "7", "x"}));
  EXPECT_EQ(values("../data,a..b"), (Strings{"../data", "a..b"}));
}

TEST(WordList, MayHoldListsTablesAndTextsInQuotes) {
  const auto values = [](const std::string& list) {
    ParsedSweep parsed = run({"t"}, {"v=" + list});
    EXPECT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
    return parsed.sweep ? jsons(*parsed.sweep) : Strings();
  };
  EXPECT_EQ(values("[64],[64,64]"), (Strings{R"({"v":[64]})", R"({"v":[64,64]})"}));
  EXPECT_EQ(values("[[64],[64,64]]"), (Strings{R"({"v":[64]})", R"({"v":[64,64]})"}));
  EXPECT_EQ(values("[1,2]"), (Strings{R"({"v":1})", R"({"v":2})"}));
  EXPECT_EQ(values(R"({"w":1},{"w":2})"), (Strings{R"({"v":{"w":1}})", R"({"v":{"w":2}})"}));
  EXPECT_EQ(values("{w=1.0},{w=2}"), (Strings{R"({"v":{"w":1.0}})", R"({"v":{"w":2}})"}));
  EXPECT_EQ(values(R"("a,b",'3')"), (Strings{R"({"v":"a,b"})", R"({"v":"3"})"}));
  EXPECT_EQ(values("f(1,2),g"), (Strings{"{\"v\":\"f(1,2)\"}", R"({"v":"g"})"}));
  EXPECT_EQ(values(":),:("), (Strings{"{\"v\":\":)\"}", "{\"v\":\":(\"}"}));
  EXPECT_EQ(values("[null,1]"), (Strings{R"({"v":null})", R"({"v":1})"}));
}

TEST(WordList, ThatResemblesOneOfTheseIsRefusedWithTheWayToWriteIt) {
  for (const auto& [list, hint] : std::vector<std::pair<std::string, std::string>>{
           {"0.1..0.5", "{from = 0.1, to = 0.5, n = 5}"},
           {"0..=3", "0..3 is 0,1,2,3"},
           {"0..10..0", "0..3 is 0,1,2,3"},
           {"range(4)", "0..3 is 0,1,2,3"},
           {"0..", "0..3 is 0,1,2,3"},
           {"0..x", "0..3 is 0,1,2,3"},
           {"1…5", "0..3 is 0,1,2,3"},
           {"1,2,...,5", "0..3 is 0,1,2,3"},
           {"1,2,…,5", "0..3 is 0,1,2,3"},
           {"1,2,..,5", "0..3 is 0,1,2,3"},
           {"logspace(-4,-1,4)", "or the values with commas"},
           {"np.linspace(0,1,3)", "{from = 0.1, to = 0.5, n = 5}"},
           {"choice(a,b)", "the values with commas"},
           {"a{1..3}", "the values with commas"},
           {"a{x,y}", "the values with commas"},
           {"$(seq 3)", "0..3 is 0,1,2,3"},
           {"`seq 3`", "0..3 is 0,1,2,3"},
           {"1:5", "for the string v=[\"1:5\"]"},
           {"1-5", "for a range write v=FROM..TO"},
           {"0:1:0.1", "v={from = 0.1, to = 0.5, n = 5}"},
           {"[a,b]", "words need no quotes"},
           {"{a,b}", "words need no quotes"},
           {"[64],[64", "unbalanced brackets"},
           {"0..99999999", "more than 1000000 values"},
           {"0..999998,0..1", "more than 1000000 values"}}) {
    const std::string text = to_text(run({"t"}, {"v=" + list}).diagnostics);
    EXPECT_NE(text.find(hint), std::string::npos) << list << ": " << text;
  }
}

TEST(WordList, OfDatesTimesRatiosAndCallsIsText) {
  for (const std::string list :
       {"2024-01-05", "12:30:00", "1:5,2:5", "1-5,6-9", "5:1", "a-b", "-1", "1e-4", "f(1,2)",
        "uniform(0,1)", "..", "../x", "a..b", "x.py", "host:80", "[\"1:5\"]", "'1:5'"}) {
    const ParsedSweep parsed = run({"t", "{v}"}, {"v=" + list});
    EXPECT_TRUE(parsed.sweep) << list << ": " << to_text(parsed.diagnostics);
  }
}

TEST(Overrides, AreTypedAsWordsAre) {
  const auto with = [](const std::string& value) {
    LoadOptions options;
    options.overrides = {{"v", value}};
    return parse_toml("[constants]\nv = 1\n" + std::string(kStep), options);
  };
  EXPECT_EQ(jsons(good(with("3.10"))), Strings{R"({"v":"3.10"})"});
  EXPECT_EQ(jsons(good(with("0e11111"))), Strings{R"({"v":"0e11111"})"});
  EXPECT_EQ(jsons(good(with("1e-3"))), Strings{R"({"v":0.001})"});
  EXPECT_EQ(jsons(good(with("\"3\""))), Strings{R"({"v":"3"})"});
  EXPECT_EQ(jsons(good(with("null"))), Strings{R"({"v":null})"});
  EXPECT_EQ(jsons(good(with("a,b"))), Strings{R"({"v":"a,b"})"});
  EXPECT_EQ(jsons(good(with("0..1"))), (Strings{R"({"v":0})", R"({"v":1})"}));
  for (const auto& [value, hint] : std::vector<std::pair<std::string, std::string>>{
           {"1e-3,1e-4", "for a list write v=[1e-3,1e-4]"},
           {"[a,b]", "isn't a valid TOML or JSON value"},
           {"0..0.5", "isn't a range"}}) {
    const std::string text = to_text(with(value).diagnostics);
    EXPECT_NE(text.find(hint), std::string::npos) << text;
  }
}

class CsvRows : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("csv_rows." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ParsedSweep rows(const std::string& text) const {
    std::ofstream(folder_ / "rows.csv", std::ios::binary) << text;
    return parse_sweep("runs_from = \"rows.csv\"\n" + std::string(kStep), SweepFormat::Toml,
                       (folder_ / "t.toml").string());
  }

  std::filesystem::path folder_;
};

TEST_F(CsvRows, AreWhatWasWritten) {
  EXPECT_EQ(jsons(good(rows("commit,n\n0e11111,32\n0e22222,32\n12e4567,1.0\n"))),
            (Strings{R"({"commit":"0e11111","n":32})", R"({"commit":"0e22222","n":32})",
                     R"({"commit":"12e4567","n":1.0})"}));
  EXPECT_EQ(jsons(good(rows("a,b\n,\"\"\nnull,\"null\"\nTrue,\"1\"\n"))),
            (Strings{R"({"a":"","b":""})", R"({"a":null,"b":"null"})", R"({"a":true,"b":"1"})"}));
}

TEST_F(CsvRows, ThatDifferInASpellingOnlyAreToldApart) {
  EXPECT_EQ(
      jsons(good(rows("lr,n\n1e-4,1\n0.0001,1\n1e-4,2\n"))),
      (Strings{R"({"lr":"1e-4","n":1})", R"({"lr":0.0001,"n":1})", R"({"lr":0.0001,"n":2})"}));
  const std::string text = to_text(rows("lr,n\n1e-4,1\n1e-4,1\n").diagnostics);
  EXPECT_NE(text.find("rows.csv:3:1: this run has the same parameters as the one at line 2; to "
                      "repeat runs"),
            std::string::npos)
      << text;
}

TEST_F(CsvRows, WithBlanksAroundTheHeaderAreRead) {
  ParsedSweep parsed = rows("\xEF\xBB\xBFlr , seed\n1,2\n");
  EXPECT_EQ(jsons(good(parsed)), Strings{R"({"lr":1,"seed":2})"});
  parsed = rows("lr,seed\n1, 2\n");
  EXPECT_EQ(jsons(good(parsed)), Strings{R"({"lr":1,"seed":" 2"})"});
  ASSERT_EQ(parsed.diagnostics.size(), 1U);
  EXPECT_EQ(parsed.diagnostics[0].severity, Diagnostic::Severity::Warning);
  EXPECT_EQ(jsons(good(rows("a,b\n\" 1\",2\n"))), Strings{R"({"a":" 1","b":2})"});
}

TEST_F(CsvRows, WithOtherSeparatorsOrEncodingsAreNamed) {
  for (const auto& [text, hint] : std::vector<std::pair<std::string, std::string>>{
           {"lr;seed\n1;2\n", "separated by semicolons"},
           {"lr\tseed\n1\t2\n", "separated by tabs"},
           {std::string("\xFF\xFEl\0r\0", 6), "UTF-16"}}) {
    const std::string found = to_text(rows(text).diagnostics);
    EXPECT_NE(found.find(hint), std::string::npos) << found;
  }
}

TEST(TypedValues, KeepTheirTypeAndAllDigits) {
  const std::string expected =
      R"({"big":123456789012345678,"f":1.0,"l":[1.0,2,-0.0],"n":null,"s":"3.10"})";
  EXPECT_EQ(jsons(good(parse_toml("[constants]\nf = 1.0\nl = [1.0, 2, -0.0]\nbig = "
                                  "123456789012345678\nn = { null = true }\ns = \"3.10\"\n" +
                                  std::string(kStep)))),
            Strings{expected});
  EXPECT_EQ(jsons(good(parse_sweep(R"({"constants": {"f": 1.0, "l": [1.0, 2, -0.0], "n": null,
                  "big": 123456789012345678, "s": "3.10"}, "steps": {"m": {"command": "t"}}})",
                                   SweepFormat::Json, "t.json"))),
            Strings{expected});
  EXPECT_EQ(jsons(good(parse_sweep("constants: {f: 1.0, l: [1.0, 2, -0.0], n: ~, big: "
                                   "123456789012345678, s: '3.10'}\nsteps: {m: {command: t}}\n",
                                   SweepFormat::Yaml, "t.yaml"))),
            Strings{expected});
}

TEST(TypedValues, MayHaveIntegersOfAnyLength) {
  const std::string digits = "123456789012345678901234567890";
  const SweepSpec json =
      good(parse_sweep("{\"constants\": {\"n\": " + digits + ", \"l\": [-" + digits +
                           "]}, \"steps\": {\"m\": {\"command\": \"t {n} {l}\"}}}",
                       SweepFormat::Json, "t.json"));
  EXPECT_EQ(jsons(json), Strings{"{\"l\":[-" + digits + "],\"n\":" + digits + "}"});
  EXPECT_EQ(texts_of(json, "n"), Strings{digits});
  EXPECT_EQ(jsons(good(parse_sweep("constants: {n: " + digits + "}\nsteps: {m: {command: t}}\n",
                                   SweepFormat::Yaml, "t.yaml"))),
            Strings{"{\"n\":" + digits + "}"});
  EXPECT_FALSE(parse_sweep("constants: {n: 0xFFFFFFFFFFFFFFFFFF}\nsteps: {m: {command: t}}\n",
                           SweepFormat::Yaml, "t.yaml")
                   .sweep);
}

TEST(TypedValues, OfRangesBetweenFloatsAreFloats) {
  EXPECT_EQ(
      jsons(good(parse_toml("[grid]\nf = { from = 1.0, to = 3.0, n = 3 }\n" + std::string(kStep)))),
      (Strings{R"({"f":1.0})", R"({"f":2.0})", R"({"f":3.0})"}));
}

TEST(TypedValues, AreEmittedAsTheFileThatSaysTheSame) {
  for (const Strings& lists : std::vector<Strings>{{"v=1.0,3.10,0e11111,1e-04"},
                                                   {"v=null,1"},
                                                   {"v=[1.0],[null]"},
                                                   {"v=1e-4,0.0001"},
                                                   {"v=9223372036854775807"}}) {
    ParsedSweep parsed = run({"t", "{v}"}, lists);
    ASSERT_TRUE(parsed.sweep) << to_text(parsed.diagnostics);
    Result<std::string> text = emit_toml(*parsed.sweep);
    ASSERT_TRUE(text) << lists[0] << ": " << text.error().message;
    EXPECT_EQ(good(parse_toml(*text)).runs, parsed.sweep->runs);
  }
  for (const char* list : {"v=True", "v=None", "v=18446744073709551616"}) {
    ParsedSweep parsed = run({"t", "{v}"}, {list});
    ASSERT_TRUE(parsed.sweep);
    Result<std::string> text = emit_toml(*parsed.sweep);
    ASSERT_FALSE(text) << list;
    EXPECT_NE(text.error().message.find("`v`"), std::string::npos) << text.error().message;
  }
}

}  // namespace
}  // namespace pergpu
