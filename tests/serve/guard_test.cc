#include "serve/guard.h"

#include <gtest/gtest.h>

#include <string>

namespace pergpu::serve {
namespace {

const std::string kSecret(64, 'a');

GuardRules rules() {
  return {
      .hosts = {"127.0.0.1:7171", "localhost:7171"}, .secret = kSecret, .cookie = "pergpu-7171"};
}

HttpRequest get(const std::string& path) {
  return {.method = "GET",
          .path = path,
          .fields = {{"host", "127.0.0.1:7171"}, {"cookie", "x=1; pergpu-7171=" + kSecret}}};
}

HttpRequest post() {
  HttpRequest request = get("/api/actions/cancel");
  request.method = "POST";
  request.fields["content-type"] = "application/json";
  request.fields["origin"] = "http://127.0.0.1:7171";
  return request;
}

int status_of(const HttpRequest& request, const GuardRules& r = rules()) {
  const auto refusal = refuse(request, r);
  return refusal ? refusal->status : 200;
}

TEST(Guard, OwnPageIsLetThrough) {
  EXPECT_EQ(status_of(get("/")), 200);
  EXPECT_EQ(status_of(post()), 200);
}

TEST(Guard, AnotherHostIsRefusedWhateverElseIsRight) {
  for (const char* host : {"", "evil.example:7171", "127.0.0.1", "127.0.0.1:7172",
                           "127.0.0.1:7171.evil.example", "LOCALHOST:7171"}) {
    HttpRequest request = get("/api/hello");
    request.fields["host"] = host;
    EXPECT_EQ(status_of(request), 403) << host;
  }
}

TEST(Guard, AnotherOriginIsRefusedWithAnyMethod) {
  for (const char* method : {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT"}) {
    for (const char* origin :
         {"http://evil.example", "null", "https://127.0.0.1:7171", "http://127.0.0.1:7172", ""}) {
      HttpRequest request = post();
      request.method = method;
      request.fields["origin"] = origin;
      EXPECT_EQ(status_of(request), 403) << method << " " << origin;
    }
  }
}

TEST(Guard, WhatTheBrowserCallsAnotherSiteIsRefused) {
  HttpRequest request = get("/api/hello");
  request.fields["sec-fetch-site"] = "cross-site";
  EXPECT_EQ(status_of(request), 403);
  request.fields["sec-fetch-site"] = "same-site";  // another port of this host
  EXPECT_EQ(status_of(request), 403);
  request.fields["sec-fetch-site"] = "none";
  EXPECT_EQ(status_of(request), 200);
}

TEST(Guard, OtherMethodsAreNotKnown) {
  HttpRequest request = post();
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"}) {
    request.method = method;
    EXPECT_EQ(status_of(request), 405) << method;
  }
}

TEST(Guard, WithoutTheSecretNothingIsTold) {
  HttpRequest request = get("/api/hello");
  request.fields["cookie"] = "pergpu-7171=" + std::string(64, 'b');
  EXPECT_EQ(status_of(request), 401);
  request.fields["cookie"] = "pergpu-7171=";
  EXPECT_EQ(status_of(request), 401);
  request.fields.erase("cookie");
  EXPECT_EQ(status_of(request), 401);
  request.path = "/login";
  EXPECT_EQ(status_of(request), 200);
  request.fields["authorization"] = "Bearer " + kSecret;
  request.path = "/metrics";
  EXPECT_EQ(status_of(request), 200);
}

TEST(Guard, AnEmptySecretLetsNobodyIn) {
  GuardRules empty = rules();
  empty.secret.clear();
  HttpRequest request = get("/api/hello");
  request.fields["cookie"] = "pergpu-7171=";
  request.fields["authorization"] = "Bearer ";
  EXPECT_EQ(status_of(request, empty), 401);
}

TEST(Guard, ActionByCookieNeedsTheOriginAndJson) {
  HttpRequest request = post();
  request.fields.erase("origin");
  EXPECT_EQ(status_of(request), 403);
  request.fields["authorization"] = "Bearer " + kSecret;  // no browser sends that by itself
  EXPECT_EQ(status_of(request), 200);
  request.fields["content-type"] = "text/plain";
  EXPECT_EQ(status_of(request), 415);
}

TEST(Guard, ReadonlyChangesNothing) {
  GuardRules readonly = rules();
  readonly.readonly = true;
  EXPECT_EQ(status_of(post(), readonly), 403);
  EXPECT_EQ(status_of(get("/"), readonly), 200);
}

TEST(CookieOf, IsFoundByItsWholeName) {
  HttpRequest request;
  request.fields["cookie"] = "xpergpu=1;pergpu-71=2; pergpu=3";
  EXPECT_EQ(cookie_of(request, "pergpu"), "3");
  EXPECT_EQ(cookie_of(request, "pergpu-7"), "");
}

}  // namespace
}  // namespace pergpu::serve
