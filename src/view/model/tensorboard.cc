// Of protobuf's wire format as much as is needed: fields are told apart by number and wire type,
// and a message that is malformed ends where it is.
#include "view/model/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

constexpr std::size_t kLongestTag = 256;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}();

std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  crc = ~crc;
  return std::rotr(crc, 15) + 0xa282ead8u;
}

/// Little-endian.  REQUIRES: bytes.size() <= 8.
std::uint64_t fixed(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }

double float_of(std::uint64_t bits) {
  const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (!std::isfinite(value)) return static_cast<double>(value);
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

struct Field {
  enum class Type : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };
  std::uint64_t number = 0;
  Type type = Type::Varint;
  std::uint64_t value = 0;      // all but Bytes
  std::string_view bytes = {};  // Bytes

  bool is(std::uint64_t its_number, Type its_type) const {
    return number == its_number && type == its_type;
  }
};
using enum Field::Type;

/// The fields of a message, one after the other.
class ProtoMessage {
 public:
  explicit ProtoMessage(std::string_view bytes) : rest_(bytes) {}

  /// nullopt: at its end, or where it is malformed.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::optional<std::uint64_t> key = varint();
    if (!key) return std::nullopt;
    Field field{.number = *key >> 3, .type = static_cast<Field::Type>(*key & 7)};
    switch (*key & 7) {
      case 0: {
        const std::optional<std::uint64_t> value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 2: {
        const std::optional<std::uint64_t> size = varint();
        if (!size || *size > rest_.size()) return std::nullopt;
        field.bytes = take(static_cast<std::size_t>(*size));
        return field;
      }
      case 1:
      case 5: {
        const std::size_t size = (*key & 7) == 1 ? 8 : 4;
        if (rest_.size() < size) return std::nullopt;
        field.value = fixed(take(size));
        return field;
      }
    }
    return std::nullopt;  // groups, which no program writes any more
  }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

/// SummaryMetadata: plugin_data = 1 { plugin_name = 1 }.
std::string_view plugin_of(std::string_view metadata) {
  std::string_view name;
  for (ProtoMessage whole(metadata); const std::optional<Field> data = whole.next();) {
    if (!data->is(1, Bytes)) continue;
    for (ProtoMessage plugin(data->bytes); const std::optional<Field> field = plugin.next();) {
      if (field->is(1, Bytes)) name = field->bytes;
    }
  }
  return name;
}

/// TensorProto with one element of a floating-point type: dtype = 1, tensor_content = 4,
/// float_val = 5, double_val = 6 (the last two packed or not).
std::optional<double> number_of_tensor(std::string_view tensor) {
  constexpr std::uint64_t kFloat = 1;
  constexpr std::uint64_t kDouble = 2;
  std::uint64_t type = 0;
  std::size_t count = 0;
  std::uint64_t bits = 0;
  const auto take = [&](std::string_view bytes, std::size_t size) {
    count += bytes.size() == size ? 1 : 2;  // 2: not the one that is looked for
    if (bytes.size() == size) bits = fixed(bytes);
  };
  std::string_view content;
  for (ProtoMessage message(tensor); const std::optional<Field> field = message.next();) {
    if (field->is(1, Varint)) type = field->value;
    if (field->is(4, Bytes)) content = field->bytes;
    if (field->is(5, Bytes)) take(field->bytes, 4);
    if (field->is(6, Bytes)) take(field->bytes, 8);
    if (field->is(5, Fixed32) || field->is(6, Fixed64)) {
      ++count;
      bits = field->value;
    }
  }
  if (type != kFloat && type != kDouble) return std::nullopt;
  if (!content.empty()) take(content, type == kFloat ? 4 : 8);
  if (count != 1) return std::nullopt;
  return type == kFloat ? float_of(bits) : double_of(bits);
}

/// Summary.Value.
std::optional<EventScalar> scalar_of(std::string_view bytes) {
  EventScalar scalar;
  std::optional<double> value;
  std::string_view plugin;
  for (ProtoMessage message(bytes); const std::optional<Field> field = message.next();) {
    if (field->is(1, Bytes)) scalar.tag = field->bytes.substr(0, kLongestTag + 1);
    if (field->is(2, Fixed32)) value = float_of(field->value);
    if (field->is(8, Bytes)) value = number_of_tensor(field->bytes);
    if (field->is(9, Bytes)) plugin = plugin_of(field->bytes);
  }
  const bool is_others = !plugin.empty() && plugin != "scalars";
  if (!value || is_others || scalar.tag.empty() || scalar.tag.size() > kLongestTag) {
    return std::nullopt;
  }
  scalar.value = *value;
  return scalar;
}

}  // namespace

std::optional<std::uint64_t> record_length(std::string_view head) {
  if (head.size() != kRecordHead) return std::nullopt;
  if (masked_crc(head.substr(0, 8)) != fixed(head.substr(8))) return std::nullopt;
  return fixed(head.substr(0, 8));
}

std::vector<EventScalar> scalars_of_record(std::string_view record) {
  std::vector<EventScalar> scalars;
  if (record.size() < kRecordFoot) return scalars;
  const std::string_view payload = record.substr(0, record.size() - kRecordFoot);
  if (masked_crc(payload) != fixed(record.substr(payload.size()))) return scalars;
  std::int64_t step = 0;
  double wall_s = 0;
  for (ProtoMessage event(payload); const std::optional<Field> field = event.next();) {
    if (field->is(1, Fixed64)) wall_s = double_of(field->value);
    if (field->is(2, Varint)) step = static_cast<std::int64_t>(field->value);
    if (!field->is(5, Bytes)) continue;
    for (ProtoMessage summary(field->bytes); const std::optional<Field> value = summary.next();) {
      if (!value->is(1, Bytes)) continue;
      std::optional<EventScalar> scalar = scalar_of(value->bytes);
      if (scalar) scalars.push_back(*std::move(scalar));
    }
  }
  for (EventScalar& scalar : scalars) {
    scalar.step = step;
    scalar.wall_s = wall_s;
  }
  return scalars;
}

void NewestScalars::add(EventScalar scalar) {
  const auto known = std::find_if(newest_.begin(), newest_.end(), [&](const EventScalar& other) {
    return other.tag == scalar.tag;
  });
  if (known != newest_.end()) {
    *known = std::move(scalar);
  } else if (newest_.size() < kMostTags) {
    newest_.push_back(std::move(scalar));
  }
}

Metrics NewestScalars::told(bool exactly) const {
  Metrics metrics;
  if (newest_.empty()) return metrics;
  std::int64_t step = newest_.front().step;
  bool has_step = false;
  for (const EventScalar& scalar : newest_) {
    step = std::max(step, scalar.step);
    has_step = has_step || scalar.tag == "step";
  }
  if (!has_step) metrics.emplace_back("step", std::to_string(step));
  for (const EventScalar& scalar : newest_) {
    std::string text = number_text(scalar.value);
    if (exactly && std::isfinite(scalar.value)) {
      text = nlohmann::json(scalar.value).dump();
    } else if (exactly) {
      text = std::isnan(scalar.value) ? "\"nan\"" : scalar.value < 0 ? "\"-inf\"" : "\"inf\"";
    }
    metrics.emplace_back(scalar.tag, std::move(text));
  }
  return metrics;
}

}  // namespace pergpu::view
