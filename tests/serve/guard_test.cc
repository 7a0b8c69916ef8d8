#include "serve/guard.h"

#include <gtest/gtest.h>

#include <string>

namespace pergpu::serve {
namespace {

const std::string kSecret(64, 'a');
const std::string kSession(64, 'c');

GuardRules rules() {
  return {.hosts = {"127.0.0.1:7171", "localhost:7171"},
          .secret = kSecret,
          .session = kSession,
          .open = {"/", "/app.js"}};
}

HttpRequest get(const std::string& path) {
  return {.method = "GET",
          .path = path,
          .fields = {{"host", "127.0.0.1:7171"}, {"authorization", "Bearer " + kSession}}};
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

TEST(Guard, TheSessionAndTheTokenAreSecretsAndNothingElse) {
  HttpRequest request = get("/");
  EXPECT_TRUE(has_secret(request, rules()));
  request.fields["authorization"] = "Bearer " + kSecret;
  EXPECT_TRUE(has_secret(request, rules()));
  for (const std::string& wrong :
       {std::string(), kSecret, std::string("Bearer "), "Bearer " + kSecret + "a"}) {
    request.fields["authorization"] = wrong;
    EXPECT_FALSE(has_secret(request, rules())) << wrong;
  }
  request.fields.erase("authorization");
  EXPECT_FALSE(has_secret(request, rules()));
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

TEST(Guard, WithoutASecretNothingIsTold) {
  HttpRequest request = get("/api/hello");
  for (const std::string& wrong : {std::string(64, 'b'), std::string(), kSecret + "a"}) {
    request.fields["authorization"] = "Bearer " + wrong;
    EXPECT_EQ(status_of(request), 401) << wrong;
  }
  request.fields.erase("authorization");
  for (const char* path : {"/api/hello", "/metrics", "/app.js.map", "/nothing"}) {
    request.path = path;
    EXPECT_EQ(status_of(request), 401) << path;
  }
  request.fields["cookie"] = "pergpu-7171=" + kSecret + "; session=" + kSession;
  EXPECT_EQ(status_of(request), 401) << "a browser sends those to others, too";
  request.fields["authorization"] = "Bearer " + kSecret;
  EXPECT_EQ(status_of(request), 200);
}

TEST(Guard, ThePageItselfIsForEverybodyButOtherSites) {
  HttpRequest request = get("/app.js");
  request.fields.erase("authorization");
  EXPECT_EQ(status_of(request), 200);
  request.fields["host"] = "evil.example";
  EXPECT_EQ(status_of(request), 403);
  request = post();
  request.path = "/app.js";
  request.fields.erase("authorization");
  EXPECT_EQ(status_of(request), 401) << "for reading only";
}

TEST(Guard, LoginNeedsNoSecretButTheOriginAndJson) {
  HttpRequest request = post();
  request.path = kLoginPath;
  request.fields.erase("authorization");
  EXPECT_EQ(status_of(request), 200);
  GuardRules readonly = rules();
  readonly.readonly = true;
  EXPECT_EQ(status_of(request, readonly), 200);
  request.fields["content-type"] = "text/plain";
  EXPECT_EQ(status_of(request), 415);
  request = post();
  request.path = kLoginPath;
  request.fields.erase("origin");
  EXPECT_EQ(status_of(request), 403);
  request.method = "GET";
  request.fields.erase("authorization");
  EXPECT_EQ(status_of(request), 401);
}

TEST(Guard, AnEmptySecretLetsNobodyIn) {
  GuardRules empty = rules();
  empty.secret.clear();
  empty.session.clear();
  HttpRequest request = get("/api/hello");
  request.fields["authorization"] = "Bearer ";
  EXPECT_EQ(status_of(request, empty), 401);
}

TEST(Guard, ActionOfThePageNeedsTheOriginAndJson) {
  HttpRequest request = post();
  request.fields.erase("origin");
  EXPECT_EQ(status_of(request), 403);
  request.fields["authorization"] = "Bearer " + kSecret;  // no browser has that one
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

}  // namespace
}  // namespace pergpu::serve
