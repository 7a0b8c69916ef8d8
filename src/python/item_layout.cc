// The head is copied before it is looked at: who has written the slot may write on.
#include "python/item_layout.h"

#include <cstring>

#include "number.h"

namespace pergpu::python {
namespace {

constexpr std::uint32_t kMagic = 0x4d544950;  // "PITM"
constexpr std::uint64_t kAlignment = 64;
constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kLongestHead = 1 << 20;

struct HeadBegin {
  std::uint32_t magic = kMagic;
  std::uint8_t kind = 0;
  std::uint8_t zero = 0;
  std::uint16_t count = 0;
  std::uint32_t bytes = 0;
  std::uint32_t unused = 0;
};
struct PartBegin {
  std::uint8_t code = 0;
  std::uint8_t size = 0;
  std::uint8_t dimensions = 0;
  std::uint8_t name_bytes = 0;
  std::uint32_t unused = 0;
  std::uint64_t offset = 0;
};

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// False: it ends before.
template <typename T>
bool take(const std::string& from, std::size_t& at, T& value) {
  if (from.size() - at < sizeof(value)) return false;
  std::memcpy(&value, from.data() + at, sizeof(value));
  at += sizeof(value);
  return true;
}

Error invalid(std::string message) { return Error{ErrorKind::Invalid, EINVAL, std::move(message)}; }

/// False: more than can be addressed.
bool measure(Part& part) {
  std::uint64_t bytes = static_cast<std::uint64_t>(part.element->size);
  bool empty = false;
  for (Py_ssize_t count : part.shape) {
    if (count == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(count), &bytes)) {
      return false;
    }
  }
  part.nbytes = empty ? 0 : bytes;
  return bytes < std::uint64_t{1} << 46;
}

bool read_part(const std::string& head, std::size_t& at, std::size_t bytes, Part& part) {
  PartBegin begin;
  if (!take(head, at, begin) || begin.dimensions > kMostDimensions) return false;
  part.element = element_of(begin.code, 8 * begin.size);
  if (part.element == nullptr) return false;
  for (int i = 0; i < begin.dimensions; ++i) {
    std::uint64_t count = 0;
    if (!take(head, at, count) || count > std::uint64_t{1} << 46) return false;
    part.shape.push_back(static_cast<Py_ssize_t>(count));
  }
  std::size_t padded = round_up(begin.name_bytes, 8);
  if (head.size() - at < padded) return false;
  part.name = head.substr(at, begin.name_bytes);
  at += padded;
  part.offset = begin.offset;
  return measure(part) && part.offset % kAlignment == 0 && part.offset >= head.size() &&
         part.offset <= bytes && part.nbytes <= bytes - part.offset;
}

}  // namespace

Result<void> ItemLayout::arrange() {
  if (parts.size() > kMostParts) {
    return invalid(std::to_string(parts.size()) + " arrays in an item; expected at most " +
                   std::to_string(kMostParts));
  }
  std::uint64_t head_bytes = sizeof(HeadBegin);
  for (Part& part : parts) {
    if (part.name.size() > kLongestName) {
      return invalid("the name of an array is longer than " + std::to_string(kLongestName) +
                     " bytes: " + part.name.substr(0, 40) + "…");
    }
    if (part.shape.size() > kMostDimensions || !measure(part)) {
      return invalid(words(part) + ": no machine has that");
    }
    head_bytes += sizeof(PartBegin) + 8 * part.shape.size() + round_up(part.name.size(), 8);
  }
  std::uint64_t at = head_bytes;
  for (Part& part : parts) {
    part.offset = round_up(at, kAlignment);
    at = part.offset + part.nbytes;
  }
  nbytes = at;
  head.clear();
  append(head, HeadBegin{.kind = static_cast<std::uint8_t>(kind),
                         .count = static_cast<std::uint16_t>(parts.size()),
                         .bytes = static_cast<std::uint32_t>(head_bytes)});
  for (const Part& part : parts) {
    append(head, PartBegin{.code = part.element->code,
                           .size = static_cast<std::uint8_t>(part.element->size),
                           .dimensions = static_cast<std::uint8_t>(part.shape.size()),
                           .name_bytes = static_cast<std::uint8_t>(part.name.size()),
                           .offset = part.offset});
    for (Py_ssize_t count : part.shape) append(head, static_cast<std::uint64_t>(count));
    head.append(part.name);
    head.resize(round_up(head.size(), 8));
  }
  return {};
}

Result<ItemLayout> read_layout(const std::byte* data, std::size_t bytes) {
  Error corrupt{ErrorKind::Corrupt, 0,
                "an item of the channel is damaged: it comes from another version of pergpu, or "
                "another process overwrote its memory"};
  HeadBegin begin;
  if (bytes < sizeof(begin)) return corrupt;
  std::memcpy(&begin, data, sizeof(begin));
  if (begin.magic != kMagic || begin.bytes < sizeof(begin) || begin.bytes > kLongestHead ||
      begin.bytes > bytes || begin.kind > static_cast<std::uint8_t>(ItemKind::Dict) ||
      begin.count > kMostParts ||
      (begin.kind == static_cast<std::uint8_t>(ItemKind::One) && begin.count != 1)) {
    return corrupt;
  }
  ItemLayout layout;
  layout.head.assign(reinterpret_cast<const char*>(data), begin.bytes);
  layout.kind = static_cast<ItemKind>(begin.kind);
  layout.nbytes = bytes;
  std::size_t at = sizeof(begin);
  for (int i = 0; i < begin.count; ++i) {
    Part part;
    if (!read_part(layout.head, at, bytes, part)) return corrupt;
    layout.parts.push_back(std::move(part));
  }
  return layout;
}

std::string words(const Part& part) {
  std::string text = std::string(part.element->name) + " of (";
  for (std::size_t i = 0; i < part.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(part.shape[i]);
  }
  return text + (part.shape.size() == 1 ? ",)" : ")");
}

}  // namespace pergpu::python
