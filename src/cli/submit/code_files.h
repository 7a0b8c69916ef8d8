// Which files the patterns of a step's `snapshot` name.
//
// A pattern is a path below the sweep file's folder; `*`, `?` and `[…]` stand for letters of one
// name, `**` for any folders.  A folder that is named stands for all that is in it.  What begins
// with a dot is named by its dot only; `__pycache__` and the sweep's output root are never part of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu::cli {

struct CodeFile {
  std::string path = {};  // below the folder
  enum class Kind : std::uint8_t { File, FolderLink } kind = Kind::File;
  std::uint64_t size = 0;
  auto operator<=>(const CodeFile&) const = default;
};

/// More is not code.
inline constexpr std::size_t kMostCodeFiles = 10'000;
inline constexpr std::uint64_t kMostCodeBytes = 1u << 30;

/// By path, each once; links to files count as files, links to folders are not entered.
/// `left_out`: an absolute path that is not looked into.  ErrorKind::Invalid: a pattern that names
/// nothing, or too much.
Result<std::vector<CodeFile>> code_files(const std::string& folder,
                                         const std::vector<std::string>& patterns,
                                         const std::string& left_out);

}  // namespace pergpu::cli
