// Bytes of a message payload: integers little-endian; strings, lists and messages inside messages
// with a u32 count before them.
//
// A message lists its fields once (fields() in protocol.h); Encoder writes and Decoder reads that
// list, so the two cannot disagree.  The decoder checks every length against what is left.
// Compatibility: fields are only ever appended.  A payload that ends where a field begins leaves
// that field at its default; bytes after the last known field are ignored.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ids.h"

namespace pergpu::keeper {

/// `Message` or `const Message`: lets one function serve writing and reading.
template <typename T, typename Message>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Message>;

class Encoder {
 public:
  template <typename... Fields>
  void operator()(const Fields&... values) {
    (field(values), ...);
  }
  template <typename T>
  requires std::is_integral_v<T>
  void field(const T& value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_.push_back(static_cast<char>(static_cast<unsigned char>(bits >> (8 * i))));
  }
  void field(const bool& value) { out_.push_back(value ? '\1' : '\0'); }
  void field(const std::string& text) {
    field(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <typename T>
  void field(const std::optional<T>& value) {
    field(value.has_value());
    if (value) field(*value);
  }
  template <typename T>
  void field(const std::vector<T>& list) {
    field(static_cast<std::uint32_t>(list.size()));
    for (const T& item : list) field(item);
  }
  template <typename T>
  requires std::is_class_v<T>
  void field(const T& message) {
    Encoder inner;
    fields(inner, message);
    field(inner.out_);
  }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... values) {
    (field(values), ...);
  }

  template <typename T>
  requires std::is_integral_v<T>
  void field(T& value) {
    if (at_end()) return;
    if (rest_.size() < sizeof(T)) return fail();
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bits = static_cast<std::make_unsigned_t<T>>(
          bits | static_cast<std::make_unsigned_t<T>>(
                     static_cast<std::make_unsigned_t<T>>(static_cast<unsigned char>(rest_[i]))
                     << (8 * i)));
    value = static_cast<T>(bits);
    rest_.remove_prefix(sizeof(T));
  }
  void field(bool& value) {
    if (at_end()) return;
    value = rest_[0] != '\0';
    rest_.remove_prefix(1);
  }
  void field(std::string& text) {
    if (at_end()) return;
    const std::uint32_t size = count();
    if (size > rest_.size()) return fail();
    text.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  template <typename T>
  void field(std::optional<T>& value) {
    bool set = false;
    field(set);
    if (!set) return;
    value.emplace();
    must_follow();
    field(*value);
  }
  template <typename T>
  void field(std::vector<T>& list) {
    if (at_end()) return;
    const std::uint32_t size = count();
    if (size > rest_.size()) return fail();  // every item takes at least one byte
    for (std::uint32_t i = 0; i < size && ok_; ++i) {
      must_follow();
      field(list.emplace_back());
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void field(T& message) {
    if (at_end()) return;
    const std::uint32_t size = count();
    if (size > rest_.size()) return fail();
    Decoder inner(rest_.substr(0, size));
    fields(inner, message);
    if (!inner.ok()) return fail();
    rest_.remove_prefix(size);
  }

  /// False when a length pointed past the end or a field was cut.
  bool ok() const { return ok_; }

 private:
  bool at_end() const { return rest_.empty(); }
  void must_follow() {
    if (at_end()) fail();
  }
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::uint32_t count() {
    std::uint32_t value = 0;
    field(value);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace pergpu::keeper
