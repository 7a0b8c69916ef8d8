// The published examples of RFC 8785 (sections 3.2.2 to 3.2.4, appendix B) and properties.
#include "spec/text/canonical_json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "arbitrary.h"

namespace pergpu {
namespace {

std::string canonical(std::string_view text) {
  Result<std::string> out = canonicalise(text);
  return out ? *out : "error: " + out.error().message;
}

TEST(CanonicalJson, ExampleOfSection322) {
  EXPECT_EQ(canonical(R"({
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    })"),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
            "\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST(CanonicalJson, NamesAreSortedByUtf16Units) {
  EXPECT_EQ(canonical(R"({
      "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis"
    })"),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\","
            "\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\","
            "\"😀\":\"Emoji: Grinning Face\",\"\uFB33\":\"Hebrew Letter Dalet With Dagesh\"}");
}

struct NumberSample {
  std::uint64_t bits;
  const char* text;
};

class CanonicalNumber : public testing::TestWithParam<NumberSample> {};

TEST_P(CanonicalNumber, IsTheShortestFormOfAppendixB) {
  EXPECT_EQ(canonical_number(std::bit_cast<double>(GetParam().bits)), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    AppendixB, CanonicalNumber,
    testing::Values(NumberSample{0x0000000000000000, "0"}, NumberSample{0x8000000000000000, "0"},
                    NumberSample{0x0000000000000001, "5e-324"},
                    NumberSample{0x8000000000000001, "-5e-324"},
                    NumberSample{0x7fefffffffffffff, "1.7976931348623157e+308"},
                    NumberSample{0xffefffffffffffff, "-1.7976931348623157e+308"},
                    NumberSample{0x4340000000000000, "9007199254740992"},
                    NumberSample{0xc340000000000000, "-9007199254740992"},
                    NumberSample{0x4430000000000000, "295147905179352830000"},
                    NumberSample{0x44b52d02c7e14af5, "9.999999999999997e+22"},
                    NumberSample{0x44b52d02c7e14af6, "1e+23"},
                    NumberSample{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
                    NumberSample{0x444b1ae4d6e2ef4e, "999999999999999700000"},
                    NumberSample{0x444b1ae4d6e2ef4f, "999999999999999900000"},
                    NumberSample{0x444b1ae4d6e2ef50, "1e+21"},
                    NumberSample{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
                    NumberSample{0x3eb0c6f7a0b5ed8d, "0.000001"},
                    NumberSample{0x41b3de4355555553, "333333333.3333332"},
                    NumberSample{0x41b3de4355555554, "333333333.33333325"},
                    NumberSample{0x41b3de4355555555, "333333333.3333333"},
                    NumberSample{0x41b3de4355555556, "333333333.3333334"},
                    NumberSample{0x41b3de4355555557, "333333333.33333343"},
                    NumberSample{0xbecbf647612f3696, "-0.0000033333333333333333"},
                    NumberSample{0x43143ff3c1cb0959, "1424953923781206.2"}));

TEST(CanonicalNumber, ReadsBackAsTheSameNumber) {
  EXPECT_TRUE(rc::check([](std::uint64_t bits) {
    double value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    RC_ASSERT(std::strtod(canonical_number(value).c_str(), nullptr) == value);
  }));
}

TEST(CanonicalJson, OfItselfIsItself) {
  EXPECT_TRUE(rc::check([] {
    nlohmann::json value = *arbitrary_json(3);
    std::string once = canonical_json(value);
    RC_ASSERT(canonical(once) == once);
    RC_ASSERT(nlohmann::json::parse(once) == value);
  }));
}

TEST(CanonicalJson, RefusesWhatIsNoJson) { EXPECT_FALSE(canonicalise("{'a': 1}")); }

}  // namespace
}  // namespace pergpu
