// Scalars out of TensorBoard's event files (events.out.tfevents.*), for jobs that write no metrics
// file.  A file is a sequence of records (TFRecord):
//
//   length, 8 bytes | its checksum, 4 | payload | its checksum, 4        all little-endian
//
// A checksum is a CRC-32C, rotated and with a constant added.  A payload is a protobuf message of
// type Event: wall_time = 1 (double), step = 2, summary = 5 with any number of Value = 1, which has
// tag = 1 and simple_value = 2 (float), or tensor = 8 and metadata = 9 that names a plugin.  Other
// plugins' values (images, histograms, hyperparameters) are passed over, as is all that is unknown.
//
// Nothing marks where a record begins: behind a length that is damaged or cut off nothing is read.
// Pure: the caller reads the file (cli/job_files/event_files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "view/model/metrics.h"

namespace pergpu::view {

struct EventScalar {
  std::int64_t step = 0;
  double wall_s = 0;  // since 1970
  std::string tag = {};
  double value = 0;  // of a float the shortest decimal that is this float: 0.98
};

inline constexpr std::size_t kRecordHead = 12;
inline constexpr std::size_t kRecordFoot = 4;

/// Of the payload behind a head; nullopt: it is none, or damaged.
std::optional<std::uint64_t> record_length(std::string_view head);

/// `record`: a payload and its checksum.  None of one that is damaged.
std::vector<EventScalar> scalars_of_record(std::string_view record);

/// The last value of each tag, of at most kMostTags.
class NewestScalars {
 public:
  static constexpr std::size_t kMostTags = 256;

  void add(EventScalar scalar);
  /// "step", then the tags in the order in which they came first; as metrics_of_line() would have
  /// them, or as exact_metrics_of_line().
  Metrics metrics() const { return told(false); }
  Metrics exact_metrics() const { return told(true); }

 private:
  Metrics told(bool exactly) const;
  std::vector<EventScalar> newest_;
};

}  // namespace pergpu::view
