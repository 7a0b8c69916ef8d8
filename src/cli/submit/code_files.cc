// The patterns lead the walk: a folder that none can match is not read, however large it is.
#include "cli/submit/code_files.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <set>
#include <string_view>
#include <utility>

#include "os/fs/file.h"
#include "spec/text/units.h"

namespace pergpu::cli {
namespace {

bool has_wildcard(std::string_view name) { return name.find_first_of("*?[") != std::string::npos; }

class Walk {
 public:
  Walk(std::string folder, std::string left_out)
      : folder_(std::move(folder)), left_out_(std::move(left_out)) {}

  /// Whether it names anything.
  Result<bool> add(const std::string& pattern) {
    const std::size_t before = seen_;
    std::vector<std::string> names;
    for (std::size_t from = 0; from <= pattern.size();) {
      const std::size_t slash = std::min(pattern.find('/', from), pattern.size());
      std::string name = pattern.substr(from, slash - from);
      if (!name.empty() && name != ".") names.push_back(std::move(name));
      from = slash + 1;
    }
    if (names.empty()) names.emplace_back("**");
    if (Result<void> walked = descend("", names, 0); !walked) return std::move(walked).error();
    return seen_ > before;
  }
  std::vector<CodeFile> take() { return {found_.begin(), found_.end()}; }

 private:
  std::string absolute(const std::string& path) const {
    return path.empty() ? folder_ : folder_ + "/" + path;
  }

  Result<void> descend(const std::string& path, const std::vector<std::string>& names,
                       std::size_t at) {
    const std::string& name = names[at];
    const bool is_last = at + 1 == names.size();
    if (!has_wildcard(name)) return enter(path, name, names, at, is_last);
    if (name == "**" && !is_last) {
      if (Result<void> here = descend(path, names, at + 1); !here) return here;
    }
    Result<std::vector<std::string>> entries = os::list_dir(absolute(path));
    if (!entries) return std::move(entries).error();
    for (const std::string& entry : *entries) {
      if (name == "**") {
        if (entry.front() == '.') continue;
        Result<void> below = is_last ? take_whole(joined(path, entry))
                                     : descend_if_folder(joined(path, entry), names, at);
        if (!below) return below;
      } else if (::fnmatch(name.c_str(), entry.c_str(), FNM_PERIOD) == 0) {
        if (Result<void> below = enter(path, entry, names, at, is_last); !below) return below;
      }
    }
    return {};
  }

  Result<void> enter(const std::string& path, const std::string& entry,
                     const std::vector<std::string>& names, std::size_t at, bool is_last) {
    const std::string its = joined(path, entry);
    return is_last ? take_whole(its) : descend_if_folder(its, names, at + 1);
  }

  Result<void> descend_if_folder(const std::string& path, const std::vector<std::string>& names,
                                 std::size_t at) {
    struct stat info {};
    const bool is_folder = ::lstat(absolute(path).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (!is_folder || is_left_out(path)) return {};
    return descend(path, names, at);
  }

  /// A file, or a folder with all that is in it.
  Result<void> take_whole(const std::string& path) {
    struct stat info {};
    struct stat target {};
    const std::string full = absolute(path);
    if (::lstat(full.c_str(), &info) < 0 || is_left_out(path)) return {};
    if (S_ISDIR(info.st_mode)) {
      Result<std::vector<std::string>> entries = os::list_dir(full);
      if (!entries) return std::move(entries).error();
      for (const std::string& entry : *entries) {
        if (entry.front() == '.') continue;
        if (Result<void> below = take_whole(joined(path, entry)); !below) return below;
      }
      return {};
    }
    if (::stat(full.c_str(), &target) < 0) return {};  // a link to nothing
    if (S_ISDIR(target.st_mode)) return take({.path = path, .kind = CodeFile::Kind::FolderLink});
    if (!S_ISREG(target.st_mode)) return {};
    return take({.path = path, .size = static_cast<std::uint64_t>(target.st_size)});
  }

  Result<void> take(CodeFile file) {
    ++seen_;
    const std::uint64_t size = file.size;
    if (!found_.insert(std::move(file)).second) return {};
    bytes_ += size;
    if (found_.size() <= kMostCodeFiles && bytes_ <= kMostCodeBytes) return {};
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("more than {} files or {} match in {}; name only the code, and use "
                             "absolute paths for data",
                             kMostCodeFiles, format_size(kMostCodeBytes), folder_)};
  }

  bool is_left_out(const std::string& path) const {
    const std::size_t slash = path.rfind('/');
    const std::string_view name = std::string_view(path).substr(slash + 1);
    return name == "__pycache__" || absolute(path) == left_out_;
  }
  static std::string joined(const std::string& path, const std::string& entry) {
    return path.empty() ? entry : path + "/" + entry;
  }

  std::string folder_;
  std::string left_out_;
  std::set<CodeFile> found_;
  std::size_t seen_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::vector<CodeFile>> code_files(const std::string& folder,
                                         const std::vector<std::string>& patterns,
                                         const std::string& left_out) {
  Walk walk(folder, left_out);
  for (const std::string& pattern : patterns) {
    Result<bool> found = walk.add(pattern);
    if (!found) return std::move(found).error();
    if (!*found) {
      return Error{ErrorKind::Invalid, 0,
                   fmt::format("\"{}\" matches no file in {}", pattern, folder)};
    }
  }
  return walk.take();
}

}  // namespace pergpu::cli
