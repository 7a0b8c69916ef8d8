// What curl is told to send.
#include "notify/http_post.h"

#include <gtest/gtest.h>

#include <string>

namespace pergpu {
namespace {

TEST(HttpPost, QuotesWhatCurlReads) {
  const std::string config = curl_config(
      {.url = "https://example.org/\"x\\y", .headers = {"Title: a\nurl = \"file:///etc/passwd\""}});
  EXPECT_NE(config.find("url = \"https://example.org/\\\"x\\\\y\"\n"), std::string::npos) << config;
  EXPECT_NE(config.find("header = \"Title: aurl = \\\"file:///etc/passwd\\\"\"\n"),
            std::string::npos)
      << config;
  EXPECT_NE(config.find("proto = \"=http,https\""), std::string::npos);
}

TEST(HttpPost, SaysWhatIsMissingWithoutCurl) {
  const Result<std::string> sent = post({.url = "http://127.0.0.1:9/"}, {"PATH=/nowhere"});
  ASSERT_FALSE(sent);
  EXPECT_NE(sent.error().message.find("package curl"), std::string::npos) << sent.error().message;
}

}  // namespace
}  // namespace pergpu
