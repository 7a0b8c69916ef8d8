// Values of a tree as the types that a sweep is made of.  Each function either returns the value or
// reports "`key` must be …, not …" at the value's place and returns nullopt.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// A value together with the name that messages give it.
struct Field {
  Report& report;
  std::string_view key;
  const Node& node;
};

/// A text and where it stands.
struct PlacedText {
  std::string text = {};
  Place at = {};
};

void wrong_type(const Field& f, std::string_view expected);

std::optional<std::string> read_text(const Field& f);
std::optional<std::string> read_nonempty_text(const Field& f);
std::optional<bool> read_truth(const Field& f);
std::optional<std::int64_t> read_whole(const Field& f, std::int64_t min, std::int64_t max);
std::optional<std::chrono::milliseconds> read_duration(const Field& f);
std::optional<std::uint64_t> read_size(const Field& f);
/// A list of texts; one text stands for a list of one.
std::optional<std::vector<PlacedText>> read_texts(const Field& f);
/// True when the value is a table.
bool expect_table(const Field& f);
/// The position of the text in `allowed`, whose other values are reported with a guess.
std::optional<std::size_t> read_choice(const Field& f,
                                       const std::vector<std::string_view>& allowed);

}  // namespace pergpu
