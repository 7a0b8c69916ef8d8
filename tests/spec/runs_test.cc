// How the sections of a sweep file make its runs.
#include <gtest/gtest.h>

#include "spec/runs/csv.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

using Strings = std::vector<std::string>;
const std::string kGood = std::string(PERGPU_TEST_DATA) + "/good/";

Strings runs_of(const std::string& sections) { return jsons(good(parse_toml(sections + kStep))); }

TEST(Runs, OfAGridAreItsProductLastKeyFastestInFileOrder) {
  EXPECT_EQ(
      runs_of("[grid]\nz = [1, 2]\na = [3, 4]\n"),
      (Strings{R"({"a":3,"z":1})", R"({"a":4,"z":1})", R"({"a":3,"z":2})", R"({"a":4,"z":2})"}));
}

TEST(Runs, OfAZipGoInStep) {
  EXPECT_EQ(runs_of("[zip]\na = [1, 2]\nb = [\"x\", \"y\"]\n"),
            (Strings{R"({"a":1,"b":"x"})", R"({"a":2,"b":"y"})"}));
}

TEST(Runs, AreRowsTimesZipTimesGridPlusConstants) {
  EXPECT_EQ(
      runs_of("[constants]\nk = true\n[grid]\ng = [1, 2]\n[zip]\nz = [5, 6]\n[[runs]]\nr = 8\n"
              "[[runs]]\nr = 9\n"),
      (Strings{R"({"g":1,"k":true,"r":8,"z":5})", R"({"g":2,"k":true,"r":8,"z":5})",
               R"({"g":1,"k":true,"r":8,"z":6})", R"({"g":2,"k":true,"r":8,"z":6})",
               R"({"g":1,"k":true,"r":9,"z":5})", R"({"g":2,"k":true,"r":9,"z":5})",
               R"({"g":1,"k":true,"r":9,"z":6})", R"({"g":2,"k":true,"r":9,"z":6})"}));
}

TEST(Runs, MayHaveDifferentParameters) {
  SweepSpec sweep = good(parse_toml("[[runs]]\na = 1\n[[runs]]\nb = 2\n" + std::string(kStep)));
  EXPECT_EQ(jsons(sweep), (Strings{R"({"a":1})", R"({"b":2})"}));
  EXPECT_EQ(sweep.columns, (Strings{"a", "b"}));
}

TEST(Runs, KeepTheTextOfNumbersAsWritten) {
  SweepSpec sweep =
      good(parse_toml("[grid]\nlr = [1e-4, 0.0002, 1_0, 0x10, +3, 1.0]\n" + std::string(kStep)));
  Strings texts;
  for (const RunSpec& run : sweep.runs) texts.push_back(run.texts);
  EXPECT_EQ(jsons(sweep), (Strings{R"({"lr":0.0001})", R"({"lr":0.0002})", R"({"lr":10})",
                                   R"({"lr":16})", R"({"lr":3})", R"({"lr":1.0})"}));
  EXPECT_EQ(texts, (Strings{R"({"lr":"1e-4"})", "", R"({"lr":"1_0"})", R"({"lr":"0x10"})",
                            R"({"lr":"+3"})", ""}));
}

TEST(Runs, OfRangesHaveExactEndsAndShortNumbers) {
  EXPECT_EQ(runs_of("[grid]\na = { from = 1e-4, to = 1e-2, n = 5, scale = \"log\" }\n"),
            (Strings{R"({"a":0.0001})", R"({"a":0.000316227766017})", R"({"a":0.001})",
                     R"({"a":0.00316227766017})", R"({"a":0.01})"}));
  EXPECT_EQ(runs_of("[grid]\na = { from = 0, to = 0.5, n = 6 }\n"),
            (Strings{R"({"a":0})", R"({"a":0.1})", R"({"a":0.2})", R"({"a":0.3})", R"({"a":0.4})",
                     R"({"a":0.5})"}));
  EXPECT_EQ(runs_of("[grid]\na = { from = 3, to = 1, n = 3 }\n"),
            (Strings{R"({"a":3})", R"({"a":2})", R"({"a":1})"}));
}

TEST(Runs, WhoseValuesCouldNotBeReadAreNotCalledWrongOtherwise) {
  const std::string step = "[steps.t]\ncommand = [\"t\", \"{a}\"]\n";
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"[grid]\na = { glob = \"no/such/*.bin\" }\n", "no file matches"},
           {"[grid]\na = \"0..3\"\n", "`a`"},
           {"[zip]\na = { glob = \"no/such/*.bin\" }\nb = [1, 2]\n", "no file matches"},
           {"[[exclude]]\na = 1\n[grid]\na = \"0..3\"\n", "`a`"}}) {
    const std::vector<std::string> found = mistakes(parse_toml(text + step));
    ASSERT_EQ(found.size(), 1U) << text << to_text(parse_toml(text + step).diagnostics);
    EXPECT_NE(found[0].find(why), std::string::npos) << found[0];
  }
  const ParsedSweep yaml =
      parse_sweep("grid: {a: [-0.0, 1_0, Yes, 0, true]}\nsteps: {t: {command: \"t {a}\"}}\n",
                  SweepFormat::Yaml, "t.yaml");
  const ParsedSweep name =
      parse_sweep("name: y\nsteps: {t: {command: \"t\"}}\n", SweepFormat::Yaml, "t.yaml");
  EXPECT_EQ(name.diagnostics.size(), 1U) << to_text(name.diagnostics);
  const ParsedSweep exclude =
      parse_sweep("grid: {a: [1, 2]}\nexclude: [{a: 1_0}]\nsteps: {t: {command: \"t {a}\"}}\n",
                  SweepFormat::Yaml, "t.yaml");
  EXPECT_EQ(exclude.diagnostics.size(), 1U) << to_text(exclude.diagnostics);
  ASSERT_EQ(yaml.diagnostics.size(), 2U) << to_text(yaml.diagnostics);
  EXPECT_NE(yaml.diagnostics[0].message.find("`1_0` is a number in some"), std::string::npos);
  EXPECT_NE(yaml.diagnostics[1].message.find("`Yes` is a boolean"), std::string::npos);
}

TEST(Runs, ThatMatchAnExcludeAreLeftOut) {
  EXPECT_EQ(
      runs_of("[grid]\na = [1, 2, 3]\nb = [\"x\", \"y\"]\n[[exclude]]\na = [1, 3.0]\nb = \"x\"\n"
              "[[exclude]]\na = 2\n"),
      (Strings{R"({"a":1,"b":"y"})", R"({"a":3,"b":"y"})"}));
}

TEST(Runs, AnExcludeThatMatchesNothingIsWarnedOf) {
  ParsedSweep parsed = parse_toml("[grid]\na = [1]\n[[exclude]]\na = 2\n" + std::string(kStep));
  EXPECT_TRUE(parsed.sweep);
  EXPECT_EQ(mistakes(parsed), Strings{"3:1 this exclude matches no run"});
  EXPECT_EQ(parsed.diagnostics[0].severity, Diagnostic::Severity::Warning);
}

TEST(Runs, OfACsvFileAreTypedByTheirLooks) {
  SweepSpec sweep = good(load_sweep(kGood + "from_csv.toml"));
  EXPECT_EQ(jsons(sweep), (Strings{R"({"fast":true,"lr":0.0001,"name":"a, \"b\""})",
                                   R"({"fast":false,"lr":"0.50","name":"007"})",
                                   R"({"fast":true,"lr":2,"name":"x y"})"}));
  EXPECT_EQ(sweep.runs[0].texts, R"({"lr":"1e-4"})");
  EXPECT_EQ(sweep.runs[1].texts, "");
}

TEST(Runs, ComeFromJsonLinesFromConfigFilesAndFromGlobs) {
  EXPECT_EQ(jsons(good(load_sweep(kGood + "from_jsonl.toml"))),
            (Strings{R"({"lr":0.0001,"name":"a"})", R"({"lr":0.5,"name":"b"})"}));
  EXPECT_EQ(
      jsons(good(load_sweep(kGood + "from_configs.toml"))),
      (Strings{R"({"lr":0.0001,"model":{"width":64}})", R"({"lr":0.001,"model":{"width":128}})"}));
  EXPECT_EQ(jsons(good(load_sweep(kGood + "glob.toml"))),
            (Strings{R"({"file":"configs/a.json"})", R"({"file":"configs/b.json"})"}));
}

TEST(Runs, AreNamedInFileOrderOfTheirParameters) {
  SweepSpec sweep = good(parse_toml("[grid]\nz = [1, 2]\n[constants]\nc = 1\n[zip]\na = [1, 2]\n" +
                                    std::string(kStep)));
  EXPECT_EQ(sweep.columns, (Strings{"z", "a"}));
}

TEST(Csv, FieldsMayHoldQuotesCommasAndNewlines) {
  std::vector<Strings> records;
  std::vector<CsvError> errors =
      visit_csv("a,b\r\n\"x\ny\",\"q\"\"q\"\n\n,\n\"\"", [&](const std::vector<CsvField>& fields) {
        Strings texts;
        for (const CsvField& f : fields) texts.push_back(f.text);
        records.push_back(texts);
      });
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(records, (std::vector<Strings>{{"a", "b"}, {"x\ny", "q\"q"}, {"", ""}, {""}}));
}

TEST(Csv, MistakesHaveTheirPlace) {
  auto nothing = [](const std::vector<CsvField>&) {};
  EXPECT_EQ(visit_csv("a\n\"b", nothing).at(0).offset, 2U);
  EXPECT_EQ(visit_csv("\"a\"b", nothing).at(0).offset, 3U);
  EXPECT_EQ(visit_csv("a\"b", nothing).at(0).offset, 1U);
}

}  // namespace
}  // namespace pergpu
