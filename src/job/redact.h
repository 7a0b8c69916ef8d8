// Secrets in command lines, made unreadable before pergpu shows them to people: in `show`, and in
// what people send to others.  The record of an attempt keeps its command line as it was.
//
// A guess by names, and meant as one: what looks like a secret's name hides the value behind it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu {

/// What stands where a secret was.
inline constexpr std::string_view kRedacted = "***";

/// Whether a value of this name is best not shown: HF_TOKEN, api-key, db.password; but not
/// max_tokens, tokenizer, author, keypoints.
bool is_secret_name(std::string_view name);

/// A text, such as one for a shell: values of NAME=VALUE, --name VALUE and `Name: VALUE` with such
/// a name, and the user part of URLs.
std::string redact_text(std::string_view whole);

/// The same for the words of a command line, where a value may be the next word.
std::vector<std::string> redact_words(const std::vector<std::string>& words);

}  // namespace pergpu
