#include "spec/templates/run_name.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arbitrary.h"

namespace pergpu {
namespace {

TEST(RunName, HasTheIndexAndTheDifferingParameters) {
  RunSpec run{.json = R"({"lr":0.0001,"method":"edm","seed":2})", .texts = R"({"lr":"1e-4"})"};
  EXPECT_EQ(run_folder_name(run, 3, 12, {"method", "seed"}), "03-method=edm,seed=2");
  EXPECT_EQ(run_folder_name(run, 3, 1001, {"lr"}), "0003-lr=1e-4");
  EXPECT_EQ(run_folder_name(run, 3, 1000, {"lr"}), "003-lr=1e-4");
  EXPECT_EQ(run_folder_name(run, 0, 1, {}), "00");
  EXPECT_EQ(run_folder_name(run, 123, 5, {"absent"}), "123");
}

TEST(RunName, OfHostileValuesIsOneHarmlessComponent) {
  auto name = [](const std::string& value) {
    std::string json = "{\"p\":";
    append_json_string(json, value);
    return run_folder_name(RunSpec{.json = json + "}"}, 0, 1, {"p"});
  };
  EXPECT_EQ(name("../../etc"), "00-p=.._.._etc");
  EXPECT_EQ(name("a,b=c d"), "00-p=a_b_c_d");
  EXPECT_EQ(name("é/\n\x1b[31m"), "00-p=_31m");
  EXPECT_EQ(name(""), "00-p=");
}

TEST(RunName, ThatIsTooLongIsCutAndStaysDistinct) {
  RunSpec a{.json = "{\"p\":\"" + std::string(200, 'a') + "x\"}"};
  RunSpec b{.json = "{\"p\":\"" + std::string(200, 'a') + "y\"}"};
  std::string name = run_folder_name(a, 0, 1, {"p"});
  EXPECT_EQ(name.size(), kMaxRunNameBytes);
  EXPECT_NE(name, run_folder_name(b, 0, 1, {"p"}));
}

TEST(RunName, IsAlwaysAGoodFolderName) {
  EXPECT_TRUE(rc::check([] {
    nlohmann::json object = nlohmann::json::object();
    std::vector<std::string> columns =
        *rc::gen::container<std::vector<std::string>>(arbitrary_text());
    for (const std::string& c : columns) object[c] = *arbitrary_json(2);
    std::string name =
        run_folder_name(RunSpec{.json = canonical_json(object)}, *rc::gen::inRange(0, 99999),
                        *rc::gen::inRange(1, 99999), columns);
    RC_ASSERT(!name.empty());
    RC_ASSERT(name.size() <= kMaxRunNameBytes);
    RC_ASSERT(name[0] >= '0' && name[0] <= '9');
    for (char c : name)
      RC_ASSERT(std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                std::string("._=,+-").find(c) != std::string::npos);
  }));
}

TEST(RunName, DoesNotTellASecret) {
  const RunSpec run{.json = R"({"api_key":"hush-1","max_tokens":8,"my_token":"hush-2"})"};
  EXPECT_EQ(run_folder_name(run, 1, 3, {"my_token"}), "01");
  EXPECT_EQ(run_folder_name(run, 1, 3, {"api_key", "max_tokens", "my_token"}), "01-max_tokens=8");
}

TEST(RunName, ThatIsCutDoesNotTellASecretByItsHash) {
  const auto name = [](const std::string& secret) {
    const std::string json = R"({"p":")" + std::string(200, 'a') + R"(","token":")" + secret;
    return run_folder_name(RunSpec{.json = json + R"("})"}, 0, 1, {"p", "token"});
  };
  EXPECT_EQ(name("hush-1"), name("hush-2"));
}

TEST(RunName, WithASecretStillHasTheTableThatIsAllItHas) {
  const RunSpec run{.json = R"({"model":{"depth":2},"token":"hush-1"})"};
  const std::string name = run_folder_name(run, 0, 2, {"model", "token"});
  EXPECT_TRUE(name.starts_with("00-model=")) << name;
  EXPECT_EQ(name.find("hush"), std::string::npos) << name;
}

TEST(RunName, OfADamagedRunIsItsIndex) {
  EXPECT_EQ(run_folder_name(RunSpec{.json = "{"}, 4, 9, {"p"}), "04");
}

}  // namespace
}  // namespace pergpu
