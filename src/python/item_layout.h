// How arrays lie in a slot of a channel, so that an item describes itself:
//
//   u32 kMagic | u8 kind | u8 0 | u16 number of arrays | u32 bytes of the head | u32 0
//   for each array: u8 DLPack's code | u8 bytes of an element | u8 dimensions | u8 bytes of its
//   name
//                   u32 0 | u64 offset | u64 dimension, … | its name, with zeros up to 8 bytes
//   the arrays, row by row, each at a multiple of 64 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/element.h"
#include "result.h"

namespace pergpu::python {

enum class ItemKind : std::uint8_t { One, Tuple, Dict };

constexpr std::size_t kMostParts = 1000;
constexpr std::size_t kLongestName = 255;
/// What the head of few arrays takes, beside their bytes.
constexpr std::uint64_t kHeadRoom = 1024;

struct Part {
  std::string name = {};  // Dict only
  const Element* element = nullptr;
  std::vector<Py_ssize_t> shape = {};
  std::uint64_t offset = 0;
  std::uint64_t nbytes = 0;
};

struct ItemLayout {
  ItemKind kind = ItemKind::One;
  std::vector<Part> parts;
  std::string head;
  std::uint64_t nbytes = 0;  // head and arrays

  /// Offsets, head and size, of parts whose element, shape and name are there.
  /// ErrorKind::Invalid: there is no such item.
  Result<void> arrange();
};
/// Constant after construction.
using Plan = std::shared_ptr<const ItemLayout>;

/// Of a slot with `bytes` bytes, from whatever process: what is read is checked, and read once.
/// ErrorKind::Corrupt: no item.
Result<ItemLayout> read_layout(const std::byte* data, std::size_t bytes);

/// As users would write it: "float32 of (2, 3)".
std::string words(const Part& part);

}  // namespace pergpu::python
