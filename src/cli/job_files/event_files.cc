// Best effort throughout: a job may be writing, or its folder may be gone.
#include "cli/job_files/event_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/written_file.h"

namespace pergpu::cli {
namespace {

constexpr int kDeepest = 4;
constexpr int kMostEntries = 2'000;
constexpr std::size_t kEventBlock = 32u << 10;
/// Records of scalars have some hundred bytes; larger ones hold images, graphs or histograms.
constexpr std::uint64_t kLargestEvent = 1u << 20;
constexpr std::size_t kMostEventsRead = 64u << 20;

/// A file from its beginning, in pieces that are asked for.
class Reader {
 public:
  explicit Reader(os::UniqueFd fd) : fd_(std::move(fd)) {}

  /// The next `size` bytes, valid until the next call; nullopt: they are not there.
  std::optional<std::string_view> next(std::size_t size) {
    while (buffer_.size() - at_ < size) {
      if (!fill(size)) return std::nullopt;
    }
    const std::string_view out = std::string_view(buffer_).substr(at_, size);
    at_ += size;
    return out;
  }
  void pass(std::uint64_t size) {
    const std::uint64_t held = std::min<std::uint64_t>(size, buffer_.size() - at_);
    at_ += static_cast<std::size_t>(held);
    offset_ += static_cast<off_t>(size - held);
  }
  bool had_enough() const { return read_ > kMostEventsRead; }

 private:
  bool fill(std::size_t size) {
    if (had_enough()) return false;
    buffer_.erase(0, at_);
    at_ = 0;
    const std::size_t begin = buffer_.size();
    buffer_.resize(std::max(size, begin + kEventBlock));
    const ssize_t got = ::pread(fd_.get(), buffer_.data() + begin, buffer_.size() - begin, offset_);
    buffer_.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return false;
    offset_ += got;
    read_ += static_cast<std::size_t>(got);
    return true;
  }

  os::UniqueFd fd_;
  std::string buffer_;
  std::size_t at_ = 0;  // what stands before it was given out
  off_t offset_ = 0;    // of the file, behind the buffer
  std::size_t read_ = 0;
};

void look(const std::string& folder, int depth, int& entries, EventFile& newest) {
  const Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (++entries > kMostEntries) return;
    const std::string path = folder + "/" + name;
    struct stat st {};
    if (::lstat(path.c_str(), &st) < 0) continue;
    if (S_ISDIR(st.st_mode) && depth < kDeepest) look(path, depth + 1, entries, newest);
    if (!S_ISREG(st.st_mode) || name.find("tfevents") == std::string::npos) continue;
    const std::int64_t written_at =
        std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
    if (written_at >= newest.written_at) newest = {.path = path, .written_at = written_at};
  }
}

}  // namespace

EventFile newest_event_file(const std::string& folder) {
  EventFile newest;
  int entries = 0;
  if (!folder.empty()) look(folder, 0, entries, newest);
  return newest;
}

view::NewestScalars newest_scalars(const std::string& path) {
  Result<os::UniqueFd> fd = os::open_written(path, os::Writer::Job, os::kResultLevels + kDeepest);
  struct stat st {};
  if (!fd || ::fstat(fd->get(), &st) < 0) return {};
  const auto size = static_cast<std::uint64_t>(st.st_size);
  Reader reader(*std::move(fd));
  view::NewestScalars newest;
  while (const std::optional<std::string_view> head = reader.next(view::kRecordHead)) {
    const std::optional<std::uint64_t> length = view::record_length(*head);
    if (!length || *length > size) break;  // damaged, or not yet there
    if (*length > kLargestEvent) {
      reader.pass(*length + view::kRecordFoot);
      continue;
    }
    const std::optional<std::string_view> record =
        reader.next(static_cast<std::size_t>(*length) + view::kRecordFoot);
    if (!record) break;
    for (view::EventScalar& scalar : view::scalars_of_record(*record)) {
      newest.add(std::move(scalar));
    }
  }
  return reader.had_enough() ? view::NewestScalars{} : newest;
}

}  // namespace pergpu::cli
