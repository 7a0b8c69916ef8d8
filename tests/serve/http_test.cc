#include "serve/http.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "serve/http_parser.h"

namespace pergpu::serve {
namespace {

TEST(SplitTarget, DecodesPathAndQuery) {
  std::string path;
  std::map<std::string, std::string> query;
  ASSERT_TRUE(split_target("/api/a%20b/c?x=1&name=lr%3D0.1+2&empty&=5", path, query));
  EXPECT_EQ(path, "/api/a b/c");
  EXPECT_EQ(query,
            (std::map<std::string, std::string>{{"x", "1"}, {"name", "lr=0.1 2"}, {"empty", ""}}));
}

TEST(SplitTarget, WhatIsMalformedIsRefused) {
  std::string path;
  std::map<std::string, std::string> query;
  for (const char* target : {"", "api", "http://else/", "/%", "/%2", "/%zz", "/a%00b", "/?x=%"}) {
    EXPECT_FALSE(split_target(target, path, query)) << target;
  }
}

TEST(NumberIn, IsWholeAndFromOne) {
  EXPECT_EQ(number_in("17"), 17);
  for (const char* text : {"", "0", "-1", "+1", "x", "1x", " 1", "1.5", "99999999999999999999"}) {
    EXPECT_EQ(number_in(text), 0) << text;
  }
}

TEST(HeadOf, NothingIsFetchedFromElsewhereNorFramedNorStored) {
  const std::string head = head_of({.type = "text/plain"}, 5, true, 1000);
  EXPECT_NE(head.find("Date: Thu, 01 Jan 1970 00:16:40 GMT\r\n"), head.npos);
  EXPECT_NE(head.find("Content-Length: 5\r\n"), head.npos);
  EXPECT_NE(head.find("default-src 'none'"), head.npos);
  EXPECT_NE(head.find("frame-ancestors 'none'"), head.npos);
  EXPECT_NE(head.find("nosniff"), head.npos);
  EXPECT_NE(head.find("Cache-Control: no-store\r\n"), head.npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(HttpParser, RequestThatComesByteByByteIsOneRequest) {
  const std::string bytes =
      "POST /api/actions/hold?x=1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 4\r\n\r\nbody";
  HttpParser parser;
  std::optional<HttpRequest> request;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_FALSE(request) << i;
    parser.add(std::string_view(bytes).substr(i, 1));
    request = parser.next();
    ASSERT_FALSE(parser.refusal());
  }
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/api/actions/hold");
  EXPECT_EQ(request->parameter("x"), "1");
  EXPECT_EQ(request->field("host"), "h:1");
  EXPECT_EQ(request->body, "body");
  EXPECT_TRUE(request->keep_alive);
}

TEST(HttpParser, RequestsThatComeAtOnceAreGivenOneByOne) {
  HttpParser parser;
  parser.add("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.0\r\nHost: h\r\n\r\n");
  const auto first = parser.next();
  const auto second = parser.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->path, "/a");
  EXPECT_EQ(second->path, "/b");
  EXPECT_FALSE(second->keep_alive);
  EXPECT_FALSE(parser.next());
}

int refusal_of(const std::string& bytes) {
  HttpParser parser;
  parser.add(bytes);
  while (parser.next()) {
  }
  return parser.refusal() ? parser.refusal()->status : 0;
}

TEST(HttpParser, WhatTwoReadersMayTakeDifferentlyIsRefused) {
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nOrigin: x\r\norigin: y\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 400);
  EXPECT_EQ(refusal_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET http://else/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST(HttpParser, WhatIsTooLongIsRefusedBeforeItIsKept) {
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nX: " + std::string(2 * kMostHeadBytes, 'x')), 431);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nx"), 413);
}

TEST(HttpParser, AfterARefusalNothingIsRead) {
  HttpParser parser;
  parser.add("nonsense\r\n\r\n");
  EXPECT_FALSE(parser.next());
  ASSERT_TRUE(parser.refusal());
  parser.add("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_FALSE(parser.next());
}

}  // namespace
}  // namespace pergpu::serve
