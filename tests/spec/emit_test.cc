#include "spec/schema/emit.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arbitrary.h"
#include "spec/schema/load.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {
namespace {

ParsedSweep parse(const std::string& text) {
  return parse_sweep(text, SweepFormat::Toml, "test.toml");
}

TEST(Emit, EverySweepParsesBackToItself) {
  EXPECT_TRUE(rc::check([] {
    SweepSpec sweep = *arbitrary_sweep();
    Result<std::string> text = emit_toml(sweep);
    if (!text) RC_LOG() << text.error().message;
    RC_ASSERT(static_cast<bool>(text));
    ParsedSweep back = parse(*text);
    RC_ASSERT(back.sweep.has_value());
    back.sweep->folder = sweep.folder;
    back.sweep->file = sweep.file;
    RC_ASSERT(*back.sweep == sweep);
  }));
}

TEST(Emit, AProductBecomesAGridWithTheTextsAsWritten) {
  ParsedSweep sweep = parse(R"(
name = "s"
[constants]
epochs = 1_000
[grid]
lr = [1e-4, 0.10]
seed = [0, 1]
[steps.main]
command = "t {lr}"
)");
  ASSERT_TRUE(sweep.sweep) << to_text(sweep.diagnostics);
  Result<std::string> text = emit_toml(*sweep.sweep);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, R"(name = "s"

[grid]
lr = [1e-4, 0.10]
seed = [0, 1]

[constants]
epochs = 1_000

[steps.main]
command = ["t", "{lr}"]
)");
}

TEST(Emit, RowsThatAreNoProductStayRows) {
  ParsedSweep sweep = parse(
      "name = \"s\"\n[[runs]]\na = 1\nb = 2\n[[runs]]\na = 2\nb = 3\n[steps.main]\ncommand = "
      "\"t\"\n");
  ASSERT_TRUE(sweep.sweep);
  Result<std::string> text = emit_toml(*sweep.sweep);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("[[runs]]\na = 2\nb = 3\n"), std::string::npos) << *text;
}

TEST(Emit, WhatTomlCannotSayIsRefused) {
  ParsedSweep large = parse_sweep(
      R"({"constants": {"a": 18446744073709551616}, "steps": {"m": {"command": ["t"]}}})",
      SweepFormat::Json, "test.json");
  ASSERT_TRUE(large.sweep) << to_text(large.diagnostics);
  EXPECT_FALSE(emit_toml(*large.sweep));
  ParsedSweep point = parse_sweep("constants: {a: .5}\nsteps: {m: {command: [t]}}\n",
                                  SweepFormat::Yaml, "test.yaml");
  ASSERT_TRUE(point.sweep) << to_text(point.diagnostics);
  EXPECT_FALSE(emit_toml(*point.sweep));
}

}  // namespace
}  // namespace pergpu
