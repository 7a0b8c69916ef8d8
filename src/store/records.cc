// A reader may come while parts are being replaced by the whole: it finds a part gone and looks for
// the whole then.
#include "store/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "job/json_depth.h"
#include "json_text.h"
#include "os/fs/written_file.h"
#include "store/event_json.h"
#include "store/json_number.h"

namespace pergpu::store {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kEnding = ".jsonl";
constexpr std::size_t kLongest = 256u << 20;

Json body(const Record& r) {
  return {{"job", r.attempt.job.value},
          {"attempt", r.attempt.number},
          {"event", event_name(r.event)},
          {"body", event_body(r.event)},
          {"at", {r.at.wall_ns, r.at.boot_ns}}};
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string from_hex(std::string_view text) {
  if (text.size() % 2 != 0) throw std::invalid_argument("an odd number of digits");
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned byte = 0;
    const auto [end, wrong] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (wrong != std::errc{} || end != text.data() + i + 2)
      throw std::invalid_argument("not a hexadecimal digit");
    out += static_cast<char>(byte);
  }
  return out;
}

Json body(const row::Usage& u) {
  return {{"job", u.job.value},
          {"attempt", u.attempt},
          {"usage", hex(u.minutes)},
          {"at", {u.at.wall_ns, u.at.boot_ns}}};
}

row::Usage usage_of(const Json& j) {
  return {.job = {whole<std::int64_t>(j.at("job"))},
          .attempt = whole<std::int32_t>(j.at("attempt")),
          .at = instant_of(j.at("at")),
          .minutes = from_hex(j.at("usage").get<std::string>())};
}

Record record_of(const Json& j) {
  Record out{.attempt = {{whole<std::int64_t>(j.at("job"))}, whole<std::int32_t>(j.at("attempt"))},
             .at = instant_of(j.at("at"))};
  Result<JobEvent> event =
      event_of(j.at("event").get<std::string>(), j.at("body").get<std::string>());
  if (!event) throw std::invalid_argument(event.error().message);
  out.event = *std::move(event);
  return out;
}

Result<RecordFile> read(const std::string& folder, const RecordName& name) {
  const std::string path = folder + "/" + to_string(name);
  Result<std::string> text = os::read_written(path, os::Writer::Keeper, kLongest);
  if (!text) return std::move(text).error();
  Result<RecordFile> file = records_of(*text);
  if (!file) return Error{ErrorKind::Corrupt, 0, path + ": " + file.error().message};
  return file;
}

}  // namespace

std::string to_string(const RecordName& name) {
  return name.part == 0 ? fmt::format("{}.{}{}", name.task, name.life, kEnding)
                        : fmt::format("{}.{}.{}{}", name.task, name.life, name.part, kEnding);
}

std::optional<RecordName> record_name_of(std::string_view name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  std::array<std::int32_t, 3> numbers{};
  std::size_t count = 0;
  for (const char* at = name.data(); count < numbers.size(); ++at) {
    const char* end = name.data() + name.size();
    const auto [next, wrong] = std::from_chars(at, end, numbers[count]);
    if (wrong != std::errc{} || numbers[count] < 0) return std::nullopt;
    ++count;
    at = next;
    if (at == end) break;
    if (*at != '.') return std::nullopt;
  }
  const RecordName out{numbers[0], numbers[1], numbers[2]};
  // One spelling only: what is written otherwise is not ours.
  const bool is_ours = count >= 2 && out.life >= 1 && (count == 2 || out.part >= 1) &&
                       to_string(out) == std::string(name) + std::string(kEnding);
  return is_ours ? std::optional<RecordName>(out) : std::nullopt;
}

std::string to_text(const RecordFile& file) {
  std::string out;
  for (const Record& record : file.records) {
    out += json_text(body(record)) + "\n";
  }
  for (const row::Usage& usage : file.usage) out += body(usage).dump() + "\n";
  if (file.closed) out += "{\"closed\":true}\n";
  return out;
}

Result<RecordFile> records_of(std::string_view text) {
  RecordFile out;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    try {
      if (nests_deeper_than(line, kMostNestedJson))
        throw std::invalid_argument("it is nested too deep");
      const Json j = Json::parse(line);
      if (j.contains("closed")) {
        out.closed = j.at("closed").get<bool>();
      } else if (j.contains("usage")) {
        out.usage.push_back(usage_of(j));
      } else {
        out.records.push_back(record_of(j));
      }
    } catch (const std::exception& error) {
      return Error{ErrorKind::Corrupt, 0, fmt::format("line {}: {}", number, error.what())};
    }
  }
  return out;
}

Result<Life> read_life(const std::string& folder, const RecordName& after) {
  Life out{.task = after.task, .number = after.life, .parts = after.part};
  for (RecordName next = after;;) {
    ++next.part;
    Result<RecordFile> part = read(folder, next);
    if (!part && part.error().kind != ErrorKind::NotFound) return std::move(part).error();
    if (!part) break;
    out.parts = next.part;
    std::vector<Record>& records = out.file.records;
    std::move(part->records.begin(), part->records.end(), std::back_inserter(records));
    std::move(part->usage.begin(), part->usage.end(), std::back_inserter(out.file.usage));
  }
  Result<RecordFile> whole = read(folder, {after.task, after.life, 0});
  if (whole) {
    out.whole = true;
    out.file = *std::move(whole);
    return out;
  }
  if (whole.error().kind != ErrorKind::NotFound) return std::move(whole).error();
  if (out.parts > after.part) return out;
  return Error{ErrorKind::NotFound, 0,
               fmt::format("{}: no more records of task {}", folder, after.task)};
}

std::vector<RecordName> lives_in(const std::vector<std::string>& names) {
  std::vector<RecordName> out;
  for (const std::string& name : names) {
    if (const std::optional<RecordName> record = record_name_of(name)) {
      out.push_back({record->task, record->life, 0});
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace pergpu::store
