// Text is JSON, read leniently: another version may have written it, and a quarantine that cannot
// be read comes back with the fault itself.
#include "gpu/quarantine.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_text.h"

namespace pergpu::gpu {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostWords = 300;  // a GPU that fails in ever new ways

template <typename T>
T value_or(const Json& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->type() != Json(otherwise).type()) return otherwise;
  return found->template get<T>();
}

}  // namespace

std::string way_out(const Quarantine& quarantine, const std::string& name) {
  const std::string by_hand = fmt::format("`pergpu gpus --release {}`", name);
  switch (quarantine.lift) {
    case Lift::Reset:
      return fmt::format("reset it{} {}, or reboot the machine",
                         quarantine.shown ? ", or" : ", which pergpu can't detect, and then",
                         by_hand);
    case Lift::Reboot:
      return "reboot the machine, or " + by_hand;
  }
  return by_hand;
}

void Quarantines::restore(const std::string& uuid, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return;
  Entry& entry = entries_[uuid];
  entry.waived = static_cast<unsigned>(value_or(json, "waived", std::uint64_t{0}));
  entry.waived_action = static_cast<int>(value_or(json, "waived_action", std::uint64_t{0}));
  entry.waived_boot_id = value_or(json, "waived_boot", std::string());
  const std::string words = value_or(json, "words", std::string());
  if (words.empty()) return;
  entry.now = Quarantine{
      .words = words,
      .lift = value_or(json, "lift", std::string()) == to_string(Lift::Reset) ? Lift::Reset
                                                                              : Lift::Reboot,
      .boot_id = value_or(json, "boot", std::string()),
      .since_wall_ns = static_cast<std::int64_t>(value_or(json, "since_ns", std::uint64_t{0})),
      .shown = value_or(json, "shown", false)};
}

std::string Quarantines::text(const std::string& uuid) const {
  const auto found = entries_.find(uuid);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  Json json = Json::object();
  if (entry.waived != 0) {
    json["waived"] = entry.waived;
    json["waived_action"] = static_cast<std::uint64_t>(std::max(0, entry.waived_action));
    json["waived_boot"] = entry.waived_boot_id;
  }
  if (entry.now) {
    json["words"] = entry.now->words;
    json["lift"] = to_string(entry.now->lift);
    json["boot"] = entry.now->boot_id;
    json["since_ns"] =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, entry.now->since_wall_ns));
    json["shown"] = entry.now->shown;
  }
  if (json.empty()) return {};
  return json_text(json);
}

std::vector<std::string> Quarantines::take(const GpuLook& look, std::int64_t wall_ns) {
  std::vector<std::string> changed;
  const auto note = [&](const std::string& uuid, bool has_changed) {
    if (has_changed && std::ranges::find(changed, uuid) == changed.end()) changed.push_back(uuid);
  };
  for (const GpuXid& xid : look.xids) {
    const XidEntry* entry = xid_entry(xid.number);
    if (entry == nullptr || entry->kind != XidKind::Hardware) continue;
    note(xid.uuid, begin(xid.uuid, xid_words(xid.number), entry->lift, wall_ns));
  }
  if (!look.complete) return changed;
  for (const GpuReading& reading : look.gpus) {
    if (!reading.uuid.empty()) note(reading.uuid, take_reading(reading, wall_ns));
  }
  return changed;
}

bool Quarantines::take_reading(const GpuReading& reading, std::int64_t wall_ns) {
  if (conditions_of(reading) == 0 && !entries_.contains(reading.uuid)) return false;
  Entry& entry = entries_[reading.uuid];
  const bool waives_less = learn(entry, reading);
  const std::optional<GpuFault> fault = fault_of(reading, counted(reading.uuid));
  if (!entry.now) {
    if (!fault) return waives_less;
    entry.now = Quarantine{.words = fault->words,
                           .lift = fault->lift,
                           .boot_id = boot_id_,
                           .since_wall_ns = wall_ns,
                           .shown = true};
    return true;
  }
  const Quarantine before = *entry.now;
  if (fault) {
    begin(reading.uuid, fault->words, fault->lift, wall_ns);
    entry.now->shown = true;
    return waives_less || *entry.now != before;
  }
  const bool is_well = reading.health == GpuHealth::Ok && told_by(reading) == kAllConditions;
  const bool is_over = before.boot_id != boot_id_ || (before.lift == Lift::Reset && before.shown);
  if (!is_well || !is_over) return waives_less;
  entry.now.reset();
  return true;
}

/// A waiver is for what the GPU has: what it is reported not to have any more is new when it comes
/// back. What is not reported stays as it was.  True: less is waived than before.
bool Quarantines::learn(Entry& entry, const GpuReading& reading) {
  const unsigned shown = conditions_of(reading);
  const unsigned gone = told_by(reading) & ~shown;
  entry.conditions = (entry.conditions & ~gone) | shown;
  entry.action = reading.recovery_action.value_or(entry.action);
  const unsigned before = entry.waived;
  entry.waived &= ~gone;
  const bool is_other_advice = entry.action != entry.waived_action;
  if ((shown & kRecoveryAdvised) != 0 && is_other_advice) entry.waived &= ~kRecoveryAdvised;
  return entry.waived != before;
}

bool Quarantines::begin(const std::string& uuid, const std::string& words, Lift lift,
                        std::int64_t wall_ns) {
  Entry& entry = entries_[uuid];
  // What was before a reboot is over with it; what is seen after it stands for itself.
  if (!entry.now || entry.now->boot_id != boot_id_) {
    const std::int64_t since = entry.now ? entry.now->since_wall_ns : wall_ns;
    entry.now =
        Quarantine{.words = words, .lift = lift, .boot_id = boot_id_, .since_wall_ns = since};
    return true;
  }
  const Quarantine before = *entry.now;
  Quarantine& now = *entry.now;
  const bool is_known = now.words.find(words) != std::string::npos;
  if (!is_known && now.words.size() + words.size() < kMostWords) now.words += "; " + words;
  now.lift = std::max(now.lift, lift);
  return now != before;
}

bool Quarantines::release(const std::string& uuid) {
  const auto found = entries_.find(uuid);
  if (found == entries_.end() || !found->second.now) return false;
  Entry& entry = found->second;
  entry.now.reset();
  entry.waived = entry.conditions;
  entry.waived_action = entry.action;
  entry.waived_boot_id = boot_id_;
  return true;
}

const Quarantine* Quarantines::of(const std::string& uuid) const {
  const auto found = entries_.find(uuid);
  return found == entries_.end() || !found->second.now ? nullptr : &*found->second.now;
}

std::vector<std::string> Quarantines::uuids() const {
  std::vector<std::string> all;
  for (const auto& [uuid, entry] : entries_) {
    if (entry.now) all.push_back(uuid);
  }
  return all;
}

unsigned Quarantines::counted(const std::string& uuid) const {
  const auto found = entries_.find(uuid);
  if (found == entries_.end() || found->second.waived_boot_id != boot_id_) return ~0u;
  return ~found->second.waived;
}

}  // namespace pergpu::gpu
