// Texts of `outputs`: what would only be found out after hours is refused.
#include "spec/templates/output_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pergpu {
namespace {

TEST(OutputPattern, OfTheKnownKindsIsGood) {
  for (const std::string text :
       {"{out}/x.ckpt", "{out}/*.ckpt", "a/**/b?.pt", "x[ab].pt", "x[!]a].pt", "x[]].pt",
        "x[[:digit:]].pt", "[{seed}]", "x\\[.pt", "{{a,b}}.pt", "a{{.pt", "{out}/f(1).pt", "[+](x)",
        "checkpoints/", "{out}/{train.out}"}) {
    EXPECT_EQ(why_no_output(text), "") << text;
  }
}

TEST(OutputPattern, OfAShellIsRefusedWithWhatToWrite) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"{out}/{a,b}.ckpt", "{a,b} isn't expanded here: list each file separately"},
           {"{out}/e{1..3}.ckpt", "{1..3} isn't expanded"},
           {"{out}/+(x)", "`+(` isn't a supported pattern"},
           {"@(a|b).pt", "`@(` isn't a supported pattern"},
           {"!(x)", "`!(` isn't a supported pattern"},
           {"*(x)", "`*(` isn't a supported pattern"},
           {"[x.ckpt", "unclosed `[`; write \\[ for"},
           {"a[b/c].pt", "unclosed `[`"},
           {"x[[:digit:].pt", "unclosed `[`"},
           {std::string(300, 'a') + "/x", "it contains a name of 300 bytes"}}) {
    EXPECT_NE(why_no_output(text).find(why), std::string::npos)
        << text << ": " << why_no_output(text);
  }
}

}  // namespace
}  // namespace pergpu
