// The three readers: order, positions and texts as written; and what each syntax hides.
#include "spec/readers/readers.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "spec/readers/toml_statements.h"
#include "spec/readers/yaml_scalar.h"
#include "spec/text/suggest.h"
#include "test_sweeps.h"

namespace pergpu {
namespace {

using Strings = std::vector<std::string>;

/// "path line:column kind text" of each node, in tree order.
void list(const Node& node, const std::string& path, Strings& out) {
  static const char* kKinds[] = {"null", "bool", "int", "float", "string", "list", "table"};
  bool inner = node.is(Node::Kind::List) || node.is(Node::Kind::Table);
  out.push_back(fmt::format("{} {}:{} {}{}{}", path, node.at.line, node.at.column,
                            kKinds[static_cast<int>(node.kind)], inner ? "" : " ", node.text));
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    std::string name = node.keys.empty() ? std::to_string(i) : node.keys[i].text;
    if (!node.keys.empty())
      name += fmt::format("@{}:{}", node.keys[i].at.line, node.keys[i].at.column);
    list(node.items[i], path + "/" + name, out);
  }
}

using Reader = std::optional<Node> (*)(Report&, std::uint32_t);

Strings tree(Reader read, const std::string& text) {
  Report report;
  std::optional<Node> root = read(report, report.add_source("t", text));
  Strings out;
  for (const Diagnostic& d : report.take()) out.push_back("error " + d.message);
  if (root) list(*root, "", out);
  return out;
}

TEST(ReadToml, KeepsFileOrderPositionsAndTexts) {
  EXPECT_EQ(tree(read_toml,
                 "z = 1e-4\na = [ 0x1F, 'é', \"x\\n\" ] # c\n[t.b]\nc.d = 2024-01-02\n[t.a]\n"),
            (Strings{" 1:1 table", "/z@1:1 1:5 float 1e-4", "/a@2:1 2:5 list",
                     "/a@2:1/0 2:7 int 0x1F", "/a@2:1/1 2:13 string é", "/a@2:1/2 2:18 string x\n",
                     "/t@3:2 3:1 table", "/t@3:2/b@3:4 3:1 table", "/t@3:2/b@3:4/c@4:1 4:1 table",
                     "/t@3:2/b@3:4/c@4:1/d@4:3 4:7 string 2024-01-02", "/t@3:2/a@5:4 5:1 table"}));
}

TEST(ReadToml, SeveralBrokenStatementsAreAllReported) {
  Strings found =
      tree(read_toml, "a = 1\na = 2\nb = \nc = [1,\n2\n[t]\nx = 1\n[t]\ny = 2\n[u]\nz = yes\n");
  Strings expected = {
      "error duplicate key `a`; first given at line 1",
      "error not valid TOML: key-value pair: expected value, saw '\\n'",
      "error not valid TOML: array: expected comma or closing ']', saw '['",
      "error duplicate table [t]; first given at line 6",
      "error not valid TOML: value: could not determine value type; put strings in quotes, but not "
      "true and false"};
  ASSERT_GE(found.size(), expected.size());
  found.resize(expected.size());
  EXPECT_EQ(found, expected);
}

TEST(TomlStatements, EndAtNewlinesOutsideOfBracketsAndTexts) {
  std::string text =
      "a = 1\n\n# c [\n[t] # x\nb = [\n 1, # ]\n 2]\nc = \"\"\"\n[x]\n\"\"\"\nd = '[' \ne = [";
  std::vector<TomlStatement> all = toml_statements(text);
  Strings found;
  for (const TomlStatement& s : all)
    found.push_back(text.substr(s.begin, s.end - s.begin) + (s.is_header ? "H" : "") +
                    (s.closed ? "" : "O"));
  EXPECT_EQ(found, (Strings{"a = 1\n", "[t] # x\nH", "b = [\n 1, # ]\n 2]\n",
                            "c = \"\"\"\n[x]\n\"\"\"\n", "d = '[' \n", "e = [O"}));
}

TEST(ReadYaml, KeepsOrderPositionsAndTexts) {
  EXPECT_EQ(tree(read_yaml, "é: x\nz: 1e-4\na: [ 0x1F, 'no', \"x\\n\", ~, ]\nm:\n  k: v w\n  e:\n"),
            (Strings{" 1:1 table", "/é@1:1 1:4 string x", "/z@2:1 2:4 float 1e-4",
                     "/a@3:1 3:4 list", "/a@3:1/0 3:6 int 0x1F", "/a@3:1/1 3:12 string no",
                     "/a@3:1/2 3:18 string x\n", "/a@3:1/3 3:25 null null", "/m@4:1 5:3 table",
                     "/m@4:1/k@5:3 5:6 string v w", "/m@4:1/e@6:3 6:3 null "}));
}

TEST(ReadYaml, KeysAreTextsWhateverTheyLookLike) {
  EXPECT_EQ(tree(read_yaml, "on: {no: 1, 012: 2}\n"),
            (Strings{" 1:1 table", "/on@1:1 1:5 table", "/on@1:1/no@1:6 1:10 int 1",
                     "/on@1:1/012@1:13 1:18 int 2"}));
}

TEST(YamlScalar, IsTypedByTheCoreSchema) {
  auto kind = [](std::string_view text) {
    YamlScalar s = type_of_plain(text);
    EXPECT_TRUE(s.trap.empty()) << text << ": " << s.trap;
    return s.kind;
  };
  for (const char* text : {"0", "12", "-3", "+4", "0xfF"})
    EXPECT_EQ(kind(text), Node::Kind::Int) << text;
  for (const char* text : {"1.5", "1e-4", ".5", "5.", "-1.5E+3", "+.5"})
    EXPECT_EQ(kind(text), Node::Kind::Float) << text;
  for (const char* text : {"true", "False", "TRUE"})
    EXPECT_EQ(kind(text), Node::Kind::Bool) << text;
  for (const char* text : {"x", "1x", "12:00:00", "2024-01-02", "1d2h", "-", ".", "e5", "1e",
                           "tRue", "nope", "0x", "1.2.3", "0b", "_1", "1:2:3:4"})
    EXPECT_EQ(kind(text), Node::Kind::String) << text;
}

TEST(YamlScalar, ThatReadersDisagreeOnIsRefused) {
  for (const char* text : {"no", "No", "YES", "on", "Off", "y", "N", "012", "-07", "00", "0o17",
                           "0b11", "1_000", "1:30", ".inf", "-.Inf", ".nan"})
    EXPECT_FALSE(type_of_plain(text).trap.empty()) << text;
}

TEST(ReadJson, KeepsOrderPositionsAndTexts) {
  EXPECT_EQ(
      tree(read_json, "{\"z\": 1e-4,\n \"é\\\"\" : [ -0, \"a:,b\" , null ,true],\"o\":{}}"),
      (Strings{" 1:1 table", "/z@1:2 1:7 float 1e-4", "/é\"@2:2 2:10 list",
               "/é\"@2:2/0 2:12 int -0", "/é\"@2:2/1 2:16 string a:,b", "/é\"@2:2/2 2:25 null null",
               "/é\"@2:2/3 2:31 bool true", "/o@2:37 2:41 table"}));
}

TEST(Readers, TakeLinearTimeForOneLongLine) {
  // Quadratic position arithmetic would take minutes here.
  std::string list = "[0";
  for (int i = 0; i < 100'000; ++i) list += ",1";
  list += "]";
  EXPECT_EQ(tree(read_json, "{\"a\": " + list + "}").size(), 100'003U);
  EXPECT_EQ(tree(read_yaml, "{\"a\": " + list + "}").size(), 100'003U);
  EXPECT_EQ(tree(read_toml, "a = " + list).size(), 100'003U);
}

TEST(Suggestion, IsTheNearestNameWithinAThird) {
  std::vector<std::string_view> known = {"max_parallel", "memory", "needs", "timeout"};
  EXPECT_EQ(nearest("max_paralel", known), "max_parallel");
  EXPECT_EQ(nearest("max-parallel", known), "max_parallel");
  EXPECT_EQ(nearest("Memroy", known), "memory");
  EXPECT_EQ(nearest("need", known), "needs");
  EXPECT_EQ(nearest("colour", known), "");
}

TEST(Suggestion, IsElseTheOnlyNameThatBeginsLikeThis) {
  const std::vector<std::string_view> known = {"gpu_memory", "idle_timeout", "gpu_env", "oom-gpu",
                                               "oom-host"};
  EXPECT_EQ(nearest("gpu_mem", known), "gpu_memory");
  EXPECT_EQ(nearest("gpumem", known), "gpu_memory");
  EXPECT_EQ(nearest("idle", known), "idle_timeout");
  EXPECT_EQ(nearest("oom", known), "") << "one as well as the other";
  EXPECT_EQ(nearest("id", known), "") << "too short";
  EXPECT_EQ(nearest("", known), "");
}

TEST(Suggestion, CountsASwapAsOneEdit) {
  EXPECT_EQ(edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(Diagnostics, ShowNoControlCharacterOfTheFile) {
  Diagnostic d;
  d.file = "a\x1b[31m.toml";
  d.line = 1;
  d.column = 3;
  d.message = "bad \x07 \xC2\x9B";
  d.source_line = "\tx\x1b]0;t";
  EXPECT_EQ(to_text(d), "a?[31m.toml:1:3: bad ? ?\n    1 |  x?]0;t\n      |   ^\n");
}

TEST(Warnings, NameWhatIsAllowedButHardlyMeant) {
  ParsedSweep parsed = parse_toml(
      "[grid]\na = [1]\n[steps.m]\ncommand = [\"t\", '{\"x\": {\"y\": {a}}}']\n[steps.n]\ncommand "
      "= [\"sh\", \"-c\", "
      "\"echo {a}\"]\n");
  ASSERT_TRUE(parsed.sweep);
  Strings found = mistakes(parsed);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], "4:17 `command`: }} gives one }; write }}}} for two");
  EXPECT_EQ(found[1].substr(0, 46), "6:24 `command`: values are pasted into this sh");
}

TEST(Mistakes, OfAThousandRowsAreCountedNotListed) {
  std::string text = "{\"runs\": [";
  for (int i = 0; i < 1000; ++i) text += std::string(i > 0 ? "," : "") + std::to_string(i);
  ParsedSweep parsed = parse_sweep(text + "], \"steps\": {\"m\": {\"command\": [\"t\"]}}}",
                                   SweepFormat::Json, "t.json");
  EXPECT_FALSE(parsed.sweep);
  EXPECT_EQ(parsed.diagnostics.size(), 101U);
  EXPECT_EQ(parsed.diagnostics.back().message, "900 more errors are not shown");
}

}  // namespace
}  // namespace pergpu
