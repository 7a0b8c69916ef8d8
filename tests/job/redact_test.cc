// What pergpu shows of command lines holds no value that has a secret's name.
#include "job/redact.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

using Words = std::vector<std::string>;

TEST(Redact, NamesOfSecretsAreKnownByTheirWords) {
  for (const char* name :
       {"HF_TOKEN", "--token", "api-key", "apiKey", "wandb.api_key", "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID", "PGPASSWORD", "--db-password", "GITHUB_PAT", "cookie", "X-Auth",
        "PERGPU_PARAM_HF_TOKEN", "MYSQL_PWD", "credentials_file", "--key"}) {
    EXPECT_TRUE(is_secret_name(name)) << name;
  }
  for (const char* name : {"max_tokens", "tokenizer", "author", "keypoints", "monkey", "bypass",
                           "passes", "n_keys", "path", "pattern", "key", "seed", ""}) {
    EXPECT_FALSE(is_secret_name(name)) << name;
  }
}

TEST(Redact, TheValueIsHiddenInEveryWayOfGivingIt) {
  EXPECT_EQ(redact_words({"t.py", "--token", "abc", "--lr", "1"}),
            (Words{"t.py", "--token", "***", "--lr", "1"}));
  EXPECT_EQ(redact_words({"t.py", "--api-key=a b", "lr=1"}),
            (Words{"t.py", "--api-key=***", "lr=1"}));
  EXPECT_EQ(redact_words({"env", "HF_TOKEN=abc", "python3"}),
            (Words{"env", "HF_TOKEN=***", "python3"}));
  EXPECT_EQ(redact_words({"t.py", "+wandb.api_key=abc"}), (Words{"t.py", "+wandb.api_key=***"}));
  EXPECT_EQ(redact_words({"curl", "-H", "Authorization: Bearer abc"}),
            (Words{"curl", "-H", "Authorization: Bearer ***"}));
}

TEST(Redact, WhatFollowsAnOptionWithoutAValueStays) {
  EXPECT_EQ(redact_words({"t.py", "--use-auth", "--lr", "1"}),
            (Words{"t.py", "--use-auth", "--lr", "1"}));
  EXPECT_EQ(redact_words({"t.py", "--token"}), (Words{"t.py", "--token"}));
}

TEST(Redact, UsersOfUrlsAreHidden) {
  EXPECT_EQ(redact_text("--db postgres://bob:p@ss@db/x?y=1 http://h/a@b"),
            "--db postgres://***@db/x?y=1 http://h/a@b");
}

TEST(Redact, TextsForAShellAreReadToo) {
  EXPECT_EQ(redact_text("export HF_TOKEN='a b'; t.py --password \"x y\" --lr 1 | tee log"),
            "export HF_TOKEN=***; t.py --password *** --lr 1 | tee log");
  EXPECT_EQ(redact_text("HF_TOKEN=ab,cd DB_PASSWORD=x{y PASS=a\"b c\"'d e'f t.py"),
            "HF_TOKEN=*** DB_PASSWORD=*** PASS=*** t.py");
  EXPECT_EQ(redact_text("sh -c 'HF_TOKEN=abc t.py'"), "sh -c 'HF_TOKEN=*** t.py'");
  EXPECT_EQ(redact_text("{\"api_key\": \"abc\", \"lr\": 1}"), "{\"api_key\": ***, \"lr\": 1}");
}

TEST(Redact, OrdinaryCommandLinesStayAsTheyAre) {
  const Words words = {
      "python3", "-c", "sorted(x, key=len)", "--max-tokens=512", "a=b",           "", "=",
      "--",      "-",  "http://h:80/p",      "{out}/m",          "layers=[64,64]"};
  EXPECT_EQ(redact_words(words), words);
}

}  // namespace
}  // namespace pergpu
