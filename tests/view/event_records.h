// What the tests of event files share: a writer of records, by the formats' documents, and a reader
// of whole files in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "view/model/tensorboard.h"

namespace pergpu::view {

inline std::string little_endian(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// Bit by bit, where the program has a table.
inline std::uint32_t masked_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string key(std::uint64_t number, std::uint64_t type) {
  return varint(number << 3 | type);
}
inline std::string bytes_field(std::uint64_t number, const std::string& bytes) {
  return key(number, 2) + varint(bytes.size()) + bytes;
}
inline std::string int_field(std::uint64_t number, std::uint64_t value) {
  return key(number, 0) + varint(value);
}
inline std::string double_field(std::uint64_t number, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return key(number, 1) + little_endian(bits, 8);
}
inline std::string float_bytes(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return little_endian(bits, 4);
}
inline std::string float_field(std::uint64_t number, float value) {
  return key(number, 5) + float_bytes(value);
}

/// Summary.Value
inline std::string simple(const std::string& tag, float value) {
  return bytes_field(1, tag) + float_field(2, value);
}
inline std::string tensor(const std::string& tag, const std::string& proto,
                          const std::string& plugin) {
  const std::string metadata = bytes_field(1, bytes_field(1, plugin));
  return bytes_field(1, tag) + bytes_field(9, metadata) + bytes_field(8, proto);
}
/// Event
inline std::string event(std::int64_t step, const std::vector<std::string>& values) {
  std::string summary;
  for (const std::string& value : values) summary += bytes_field(1, value);
  return double_field(1, 1795266000.5) + int_field(2, static_cast<std::uint64_t>(step)) +
         bytes_field(5, summary);
}
inline std::string with_checksum(const std::string& bytes) {
  return bytes + little_endian(masked_crc(bytes), 4);
}
inline std::string record(const std::string& payload) {
  return with_checksum(little_endian(payload.size(), 8)) + with_checksum(payload);
}

/// Of a file, or of its beginning, as cli/job_files/event_files.h reads it.
inline std::vector<EventScalar> scalars_of_events(std::string_view bytes) {
  std::vector<EventScalar> all;
  while (bytes.size() >= kRecordHead) {
    const std::optional<std::uint64_t> length = record_length(bytes.substr(0, kRecordHead));
    bytes.remove_prefix(kRecordHead);
    if (!length || bytes.size() < kRecordFoot || *length > bytes.size() - kRecordFoot) break;
    const std::size_t size = static_cast<std::size_t>(*length) + kRecordFoot;
    for (EventScalar& scalar : scalars_of_record(bytes.substr(0, size))) {
      all.push_back(std::move(scalar));
    }
    bytes.remove_prefix(size);
  }
  return all;
}

}  // namespace pergpu::view
