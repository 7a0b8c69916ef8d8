// What the coordinator sends in one stream, for any number of readers that come, go and come back:
// the state as it is now, and the last events, numbered.  A reader that knows an event that is
// still kept gets what came after it; any other begins with the state.  Pure.
//
// The streams are those of op "watch" (api/snapshot.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pergpu::serve {

class Topic {
 public:
  /// Events are kept for readers that come back, up to this number and size.
  static constexpr std::size_t kMostEvents = 2'000;
  static constexpr std::size_t kMostBytes = 4u << 20;

  struct Event {
    std::uint64_t number = 0;
    std::string name = {};  // "sweep.job"
    std::string data = {};  // JSON on one line
  };

  /// `name` stands before the names of its events; their numbers are larger than `begin`.  Of two
  /// topics of one stream, the later one has to begin behind all numbers of the other: a reader of
  /// that one must not take them for its own.
  explicit Topic(std::string name, std::uint64_t begin = 0)
      : name_(std::move(name)), newest_(begin) {}

  /// An event as the coordinator sends it; one of another kind is passed over.
  void take(const nlohmann::json& event);
  /// The stream broke; a snapshot follows when it is back.
  void gap(const std::string& why);

  /// A snapshot has come.
  bool is_known() const { return known_; }
  /// Not empty: what keeps it from being sent.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t newest() const { return newest_; }
  /// What came after `number`; nullopt: that is no longer kept, or was never given.
  std::optional<std::vector<const Event*>> since(std::uint64_t number) const;
  /// All that is known, as of newest().
  Event snapshot() const;
  /// Of the jobs that are shown; null: not among them.
  const nlohmann::json* job(std::int64_t id) const;

 private:
  void replace(const nlohmann::json& event);
  void put_jobs(const nlohmann::json& event);
  void put(const nlohmann::json& event, const char* key);
  void add(const std::string& kind, const nlohmann::json& data);

  std::string name_;
  bool known_ = false;
  std::string trouble_;
  nlohmann::json rest_ = nlohmann::json::object();  // of the snapshot, but for the jobs
  std::map<std::int64_t, nlohmann::json> jobs_;
  std::deque<Event> events_;
  std::size_t bytes_ = 0;  // of events_
  std::uint64_t newest_;
};

}  // namespace pergpu::serve
