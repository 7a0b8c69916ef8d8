// Times are compared as the file system gives them, with one another and with the stamp that it
// gave at the start; no clock of this machine is involved.
#include "os/fs/expected_files.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "os/fs/dir_stream.h"

namespace pergpu::os {
namespace {

constexpr int kMostEntries = 10'000;     // looked at in one folder that is an output
constexpr int kMostMatched = 1'000'000;  // names compared with one pattern

constexpr char kAbsent[] = "does not exist";
constexpr char kNoFolder[] = "is not a folder";
constexpr char kEmpty[] = "is empty";
constexpr char kOld[] = "is older than the attempt";
constexpr char kNoMatch[] = "matches no file";
constexpr char kFileMatches[] = "matches only files, but the trailing `/` requires a folder";
constexpr char kEmptyMatches[] = "matches only empty files";
constexpr char kOldMatches[] = "matches nothing newer than the start of the attempt";

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

bool is_new_enough(const struct stat& st, const std::optional<timespec>& since) {
  return !since || !is_before(st.st_mtim, *since);
}

bool is_dot(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

std::string why_folder_fails(const std::string& path, const struct stat& folder,
                             const std::optional<timespec>& since) {
  const DirStream dir(::opendir(path.c_str()));
  if (!dir) return std::string("cannot be read: ") + std::strerror(errno);
  bool any = false;
  bool is_new = is_new_enough(folder, since);
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (is_dot(entry->d_name)) continue;
    any = true;
    struct stat st = {};
    if (!is_new && ::fstatat(::dirfd(dir.get()), entry->d_name, &st, 0) == 0)
      is_new = is_new_enough(st, since);
    if (is_new) break;
  }
  if (!any) return kEmpty;
  return is_new ? "" : kOld;
}

bool is_wild(std::string_view name) { return name.find_first_of("*?[") != std::string::npos; }

/// Without the backslashes that make signs stand for themselves.
std::string without_backslashes(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '\\' && i + 1 < name.size()) ++i;
    out += name[i];
  }
  return out;
}

std::vector<std::string> names_of(const std::string& pattern) {
  std::vector<std::string> names;
  for (std::size_t from = 0; from <= pattern.size();) {
    const std::size_t slash = std::min(pattern.find('/', from), pattern.size());
    if (slash > from) names.push_back(pattern.substr(from, slash - from));
    from = slash + 1;
  }
  return names;
}

/// Walks the folders that the pattern leads to, until a match is as it should be.
class Search {
 public:
  Search(const std::string& pattern, std::optional<timespec> since)
      : names_(names_of(pattern)), is_folder_meant_(pattern.ends_with('/')), since_(since) {}

  std::string why() {
    if (names_.empty() || look("", 0)) return names_.empty() ? kNoMatch : "";
    return why_;
  }

 private:
  /// Whether a good match lies below `folder`, for the pattern's names from `at` on.
  bool look(const std::string& folder, std::size_t at) {
    const std::string& name = names_[at];
    const bool is_last = at + 1 == names_.size();
    if (name != "**" && !is_wild(name)) return enter(folder + "/" + without_backslashes(name), at);
    if (name == "**" && !is_last && look(folder, at + 1)) return true;
    const DirStream dir(::opendir(folder.empty() ? "/" : folder.c_str()));
    if (!dir) {
      if (errno != ENOENT && errno != ENOTDIR) {
        why_ = "cannot be searched: " + folder + ": " + std::strerror(errno);
      }
      return false;
    }
    while (const dirent* entry = ::readdir(dir.get())) {
      if (is_dot(entry->d_name) || ++looked_ > kMostMatched) continue;
      const std::string path = folder + "/" + entry->d_name;
      if (name != "**") {
        if (::fnmatch(name.c_str(), entry->d_name, FNM_PERIOD) == 0 && enter(path, at)) return true;
      } else if (entry->d_name[0] != '.') {
        if (is_last && judge(path)) return true;
        if (is_folder_itself(path) && look(path, at)) return true;
      }
    }
    return false;
  }

  bool enter(const std::string& path, std::size_t at) {
    if (at + 1 == names_.size()) return judge(path);
    return is_folder(path) && look(path, at + 1);
  }

  static bool is_folder(const std::string& path) {
    struct stat st = {};
    return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  }
  /// No link: `**` follows none, so that it cannot go round in a circle.
  static bool is_folder_itself(const std::string& path) {
    struct stat st = {};
    return ::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  }

  bool judge(const std::string& path) {
    const std::string why = why_not_there(is_folder_meant_ ? path + "/" : path, since_);
    if (why.empty()) return true;
    if (why == kNoFolder && why_ == kNoMatch) why_ = kFileMatches;
    if (why == kEmpty && why_ == kNoMatch) why_ = kEmptyMatches;
    if (why == kOld) why_ = kOldMatches;
    return false;
  }

  std::vector<std::string> names_;
  bool is_folder_meant_;  // by a `/` at the end
  std::optional<timespec> since_;
  std::string why_ = kNoMatch;
  int looked_ = 0;
};

}  // namespace

std::string why_not_there(const std::string& path, std::optional<timespec> since) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) < 0) {
    const int error = errno;
    const std::string file = path.substr(0, path.find_last_not_of('/') + 1);
    if (error == ENOTDIR && file != path && ::stat(file.c_str(), &st) == 0) return kNoFolder;
    if (error == ENOENT || error == ENOTDIR) return kAbsent;
    return std::string("cannot be read: ") + std::strerror(error);
  }
  if (S_ISDIR(st.st_mode)) return why_folder_fails(path, st, since);
  if (S_ISREG(st.st_mode) && st.st_size == 0) return kEmpty;
  return is_new_enough(st, since) ? "" : kOld;
}

std::string why_no_match(const std::string& pattern, std::optional<timespec> since) {
  if (why_not_there(without_backslashes(pattern), since).empty()) return "";
  return Search(pattern, since).why();
}

bool is_known_missing(std::string_view why) { return !why.empty() && !why.starts_with("cannot"); }

std::string escape_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace pergpu::os
