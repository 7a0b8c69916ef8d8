// Texts of `outputs`: what would only be found out after hours is refused.
#include "spec/output_pattern.h"

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
           {"{out}/{a,b}.ckpt", "{a,b} stands for nothing here: write each file as an entry"},
           {"{out}/e{1..3}.ckpt", "{1..3} stands for nothing"},
           {"{out}/+(x)", "`+(` is no pattern here"},
           {"@(a|b).pt", "`@(` is no pattern here"},
           {"!(x)", "`!(` is no pattern here"},
           {"*(x)", "`*(` is no pattern here"},
           {"[x.ckpt", "a `[` is never closed; write \\[ for"},
           {"a[b/c].pt", "a `[` is never closed"},
           {"x[[:digit:].pt", "a `[` is never closed"},
           {std::string(300, 'a') + "/x", "a name in it has 300 bytes"}}) {
    EXPECT_NE(why_no_output(text).find(why), std::string::npos)
        << text << ": " << why_no_output(text);
  }
}

}  // namespace
}  // namespace pergpu
