// Moving is a rename in one folder, so it is quick however much there is.  Other users may be able
// to write into the folder: what lies aside is used only if it is our folder, and is held
// open while it is filled.
#include "cli/care/result_removal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "api/snapshot.h"
#include "job/json_depth.h"
#include "job/json_fields.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestRecordRead = 4u << 20;  // of a record
constexpr char kRecord[] = "attempt.json";
constexpr std::string_view kAsideBegin = ".cleaned-";
constexpr int kMostTrashNames = 1'000;  // for a run of which some was put aside before

Error cannot(std::string what) { return Error{ErrorKind::Io, 0, std::move(what)}; }

/// nullopt: nothing is there.
Result<std::optional<struct stat>> look_at(const std::string& path, bool follow = false) {
  struct stat info = {};
  const int looked = follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info);
  if (looked == 0) return std::optional(info);
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<struct stat>();
  return cannot(os_error("look at " + path).message);
}

/// A folder by descriptors; nullopt: it isn't there.
Result<std::optional<os::HeldFolder>> hold_if_there(const std::string& path) {
  Result<os::HeldFolder> folder = os::HeldFolder::open(path);
  if (folder) return std::optional(*std::move(folder));
  const int why = folder.error().os_errno;
  if (why == ENOENT || why == ENOTDIR) return std::optional<os::HeldFolder>();
  return cannot(folder.error().message);
}

/// The folder of a sweep's results, which is no link; nullopt: it isn't there.
Result<std::optional<os::HeldFolder>> hold_results(const std::string& path) {
  const Result<std::optional<os::HeldFolder>> root = hold_if_there(os::parent_of(path));
  if (!root) return root.error();
  if (!*root) return std::optional<os::HeldFolder>();
  Result<os::HeldFolder> folder = (*root)->open_folder(os::name_of(path));
  if (folder) return std::optional(*std::move(folder));
  if (folder.error().os_errno == ENOENT) return std::optional<os::HeldFolder>();
  return cannot(folder.error().message);
}

/// Of a folder that is not there: an error when the one it was made in is not there either.
Result<void> check_root(const std::string& folder) {
  const std::string root = os::parent_of(folder);
  const Result<std::optional<struct stat>> info = look_at(root, /*follow=*/true);
  if (!info) return info.error();
  if (*info) return {};
  return cannot(root +
                " does not exist: is its file system mounted? If you removed it, create it again, "
                "or clean without --results");
}

void measure(const os::HeldFolder& folder, const std::string& name, dev_t device, Size& size) {
  const Result<std::optional<struct stat>> info = folder.look_at(name);
  if (!info || !*info) return;
  if ((*info)->st_dev != device) {
    size.mounted = true;
    return;
  }
  if (!S_ISDIR((*info)->st_mode)) {
    ++size.files;
    size.bytes += static_cast<std::int64_t>((*info)->st_size);
    return;
  }
  const Result<os::HeldFolder> inner = folder.open_folder(name);
  const Result<std::vector<std::string>> names =
      inner ? inner->names() : Result<std::vector<std::string>>(inner.error());
  if (!names) return;
  for (const std::string& entry : *names) measure(*inner, entry, device, size);
}

bool is_ours(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

Error not_ours(const std::string& aside) {
  return cannot(aside + " is not the folder that `clean` moved there; it is kept");
}

/// A record of an attempt in its folder; null: there is none.
Result<json> read_record(const os::HeldFolder& folder) {
  const Result<std::optional<struct stat>> info = folder.look_at(kRecord);
  if (!info) return cannot(info.error().message);
  if (!*info || !S_ISREG((*info)->st_mode)) return json();
  // Only looked at: one with a second name, of a backup, is as good.
  const os::UniqueFd fd(
      ::openat(folder.fd(), kRecord, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return cannot(os_error("open " + folder.path_of(kRecord)).message);
  const Result<std::string> text =
      os::read_open_file(fd.get(), folder.path_of(kRecord), kLongestRecordRead);
  if (!text && text.error().kind == ErrorKind::Invalid) return json();  // too long for a record
  if (!text) return cannot(text.error().message);
  if (nests_deeper_than(*text, kMostNestedJson)) return json();
  json record = json::parse(*text, nullptr, false);
  return record.is_object() ? record : json();
}

/// Runs that were moved from `folder` to `aside`, and the way back.
class Moves {
 public:
  Moves(int folder, int aside) : folder_(folder), aside_(aside) {}

  /// False: it cannot be moved (errno).
  bool move(const std::string& name) {
    std::string to = name;
    for (int i = 2; ::renameat(folder_, name.c_str(), aside_, to.c_str()) != 0; ++i) {
      if (errno == ENOENT) return true;
      const bool is_taken =
          errno == ENOTEMPTY || errno == EEXIST || errno == EISDIR || errno == ENOTDIR;
      if (!is_taken || i > kMostTrashNames) return false;
      to = fmt::format("{}.{}", name, i);
    }
    moved_.emplace_back(name, std::move(to));
    return true;
  }

  void undo() {
    for (auto it = moved_.rbegin(); it != moved_.rend(); ++it) {
      (void)::renameat(aside_, it->second.c_str(), folder_, it->first.c_str());
    }
  }

 private:
  int folder_;
  int aside_;
  std::vector<std::pair<std::string, std::string>> moved_;
};

}  // namespace

SweepResults results_of(const json& sweep) {
  return {.id = sweep.value("id", std::int64_t{0}),
          .sweep = string_at(sweep, "sweep"),
          .folder = string_at(sweep, "folder"),
          .aside = string_at(sweep, "aside"),
          .runs = sweep.value("runs", std::vector<std::string>()),
          .ended_at_ns = from_rfc3339(string_at(sweep, "ended_at"))};
}

Size measure_results(const SweepResults& results) {
  Size size;
  const Result<std::optional<os::HeldFolder>> folder = hold_results(results.folder);
  struct stat info = {};
  if (!folder || !*folder || ::fstat((*folder)->fd(), &info) != 0) return size;
  for (const std::string& run : results.runs) measure(**folder, run, info.st_dev, size);
  measure(**folder, os::name_of(results.aside), info.st_dev, size);
  return size;
}

OtherFolders::OtherFolders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const Result<std::optional<struct stat>> info = look_at(folder, /*follow=*/true);
    if (!info) all_seen_ = info.error();
    if (!info || !*info) continue;
    std::error_code failed;
    std::string path = std::filesystem::canonical(folder, failed).string();
    if (failed) all_seen_ = cannot("look at " + folder + ": " + failed.message());
    folders_.emplace((*info)->st_dev, (*info)->st_ino);
    if (!failed) paths_.push_back(std::move(path));
  }
  std::ranges::sort(paths_);
}

Result<void> OtherFolders::check(const std::string& folder) const {
  if (!all_seen_) {
    return cannot("can't check whether another sweep has the same folder: " +
                  all_seen_.error().message);
  }
  const Result<std::optional<struct stat>> info = look_at(folder, /*follow=*/true);
  if (!info) return info.error();
  if (!*info) return {};
  if (folders_.contains({(*info)->st_dev, (*info)->st_ino})) {
    return invalid(folder + " is also the folder of a sweep that is kept");
  }
  std::error_code failed;
  const std::string inside = std::filesystem::canonical(folder, failed).string() + "/";
  if (failed) return cannot("look at " + folder + ": " + failed.message());
  const auto other = std::ranges::lower_bound(paths_, inside);
  if (other == paths_.end() || !other->starts_with(inside)) return {};
  return invalid(folder + " contains the results of a sweep that is kept: " + *other);
}

Result<void> check_folder(const SweepResults& results, const OtherFolders& others) {
  // First of all: the others look by the folder's name, and would follow a planted link.
  const Result<std::optional<os::HeldFolder>> root = hold_if_there(os::parent_of(results.folder));
  if (!root) return root.error();
  const Result<std::optional<struct stat>> info = look_at(results.folder);
  if (!info) return info.error();
  if (!*info) return check_root(results.folder);
  if (!S_ISDIR((*info)->st_mode)) {
    return invalid(results.folder +
                   " is a link or a file, not a folder, so its results are kept; clean without "
                   "--results to remove only the history");
  }
  return others.check(results.folder);
}

namespace {

Result<void> check_run(const os::HeldFolder& folder, const std::string& run,
                       const SweepResults& results,
                       const std::function<bool(const json& record)>& is_over) {
  const Result<os::HeldFolder> steps = folder.open_folder(run);
  if (!steps) return cannot(steps.error().message);
  const Result<std::vector<std::string>> names = steps->names();
  if (!names) return cannot(names.error().message);
  for (const std::string& name : *names) {
    const Result<std::optional<struct stat>> info = steps->look_at(name);
    if (!info) return cannot(info.error().message);
    if (!*info || !S_ISDIR((*info)->st_mode)) continue;
    const Result<os::HeldFolder> step = steps->open_folder(name);
    if (!step) return cannot(step.error().message);
    const Result<json> record = read_record(*step);
    if (!record) return record.error();
    if (record->is_null()) continue;
    const std::string path = step->path_of(kRecord);
    const std::int64_t began = std::max(from_rfc3339(string_at(*record, "starting_at")),
                                        from_rfc3339(string_at(*record, "started_at")));
    if (began > results.ended_at_ns) {
      return invalid(path + " records an attempt that began after the sweep had ended");
    }
    if (string_at(*record, "state") == "running" && !is_over(*record)) {
      return invalid(path + " records a running attempt of another sweep");
    }
  }
  return {};
}

}  // namespace

Result<void> check_attempts(const SweepResults& results,
                            const std::function<bool(const json& record)>& is_over) {
  const Result<std::optional<os::HeldFolder>> folder = hold_results(results.folder);
  if (!folder) return folder.error();
  if (!*folder) return {};
  for (const std::string& run : results.runs) {
    const Result<std::optional<struct stat>> info = (*folder)->look_at(run);
    if (!info) return cannot(info.error().message);
    if (!*info || !S_ISDIR((*info)->st_mode)) continue;
    if (Result<void> may = check_run(**folder, run, results, is_over); !may) return may;
  }
  return {};
}

Result<void> put_aside(const SweepResults& results, bool& is_back) {
  is_back = false;
  const auto failure = [&](const std::string& what) { return cannot(os_error(what).message); };
  const Result<std::optional<os::HeldFolder>> held = hold_results(results.folder);
  if (!held) return held.error();
  if (!*held) return {};
  const os::HeldFolder& folder = **held;
  const std::string name = os::name_of(results.aside);
  if (::mkdirat(folder.fd(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    is_back = true;
    return failure("make " + results.aside);
  }
  const Result<os::HeldFolder> aside = folder.open_folder(name);
  struct stat info = {};
  if (!aside || ::fstat(aside->fd(), &info) != 0 || !is_ours(info)) {
    is_back = true;
    return not_ours(results.aside);
  }

  Moves moves(folder.fd(), aside->fd());
  std::optional<Error> error;
  for (const std::string& run : results.runs) {
    if (moves.move(run)) continue;
    error = failure(fmt::format("move {}/{} to {}", results.folder, run, results.aside));
    break;
  }
  for (const os::HeldFolder* changed : {&*aside, &folder}) {
    if (error) break;
    if (Result<void> synced = changed->sync(); !synced) error = synced.error();
  }
  if (!error) return {};
  moves.undo();
  is_back = ::unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR) == 0;  // else something is in it
  if (!is_back) error->message += "; some of its results are in " + results.aside;
  return *std::move(error);
}

Result<void> remove_aside(const std::string& aside, Size& size) {
  const std::string folder = os::parent_of(aside);
  const Result<std::optional<os::HeldFolder>> held = hold_results(folder);
  if (!held) return held.error();
  if (!*held) return check_root(folder);
  const std::string name = os::name_of(aside);
  const Result<std::optional<struct stat>> info = (*held)->look_at(name);
  if (!info) return cannot(info.error().message);
  if (!*info) return {};
  if (!is_ours(**info) || !name.starts_with(kAsideBegin)) return not_ours(aside);
  Size its;
  measure(**held, name, (*info)->st_dev, its);
  if (its.mounted) return cannot(aside + " contains another file system, so it is kept");
  if (Result<void> removed = (*held)->remove_tree(name); !removed) return removed;
  size.files += its.files;
  size.bytes += its.bytes;
  return {};
}

void remove_empty_folder(const std::string& folder) {
  const Result<os::HeldName> held = os::walk_to(folder);
  if (held) ::unlinkat(held->folder.fd(), held->name.c_str(), AT_REMOVEDIR);
}

}  // namespace pergpu::cli
