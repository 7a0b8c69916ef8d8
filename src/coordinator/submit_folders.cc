// Folders are looked at in small parts, so that a slow file server needs no more than what the
// answer needs, and a message can name what did not answer.
#include "coordinator/submit_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "os/fs/file.h"
#include "os/fs/real_path.h"

namespace pergpu {
namespace {

/// A mount that is made when it is asked for, and a server that was idle, take several seconds.
constexpr std::int64_t kFoldersPatience = 30 * kSecond;
constexpr std::int64_t kForAll = 2 * kSecond;  // then the first finished result is enough
constexpr std::size_t kMostResults = 1000;     // results: enough to judge by
constexpr std::size_t kFoldersAtOnce = 32;     // folders

constexpr std::string_view kThen =
    "Nothing was submitted. Check that its file server responds (try `ls`), then submit again";

/// What `clean` took out of this home's history and left in its place: a user asked for that.
bool is_cleaned(const World& world, const std::string& home, const FoundResult& result) {
  return result.home == home && result.id.job < world.next_job_id() &&
         sweeps_of(world, home, {result}).empty();
}

/// Where sweeps of this name have their results; `numbered`: those of "name-2" and so on, too.
std::vector<std::string> known_roots(const World& world, const std::string& name, bool numbered) {
  std::vector<std::string> roots;
  std::string candidate = name;
  for (int n = 2;; ++n) {
    const std::vector<SweepId> known = world.sweeps_named(candidate);
    for (const SweepId id : known) {
      const Sweep* sweep = world.sweep(id);
      roots.push_back(sweep != nullptr ? sweep->root : world.archived().at(id).root);
    }
    if (!numbered || known.empty()) return roots;
    candidate = fmt::format("{}-{}", name, n);
  }
}

}  // namespace

/// A path is text, and one folder has many: those of a link, of another mount of it.
void SubmitFolders::find_root(SweepSpec file, bool has_unique_name, Rooted then) const {
  const std::string root = output_root(file);
  std::vector<std::string> known = known_roots(*parts_.world, file.name, has_unique_name);
  if (std::ranges::find(known, root) != known.end() || known.empty() || !parts_.aside) {
    return then(std::move(file));
  }
  const auto own = std::make_shared<SweepSpec>(std::move(file));
  const auto has_answered = std::make_shared<std::atomic<bool>>(false);
  look().until(
      now() + kFoldersPatience,
      [root, known = std::move(known), has_answered]() -> std::optional<std::string> {
        (void)os::folder_identity(root);
        *has_answered = true;
        return os::same_folder(known, root);
      },
      [own, then](const std::optional<std::string>& same) {
        if (same) own->out = *same;
        then(std::move(*own));
      },
      [own, then, root, has_answered] {
        // Its own disk is well: the one that hangs is another.
        if (*has_answered) return then(std::move(*own));
        then(Error{ErrorKind::Invalid, 0,
                   fmt::format("{} didn't respond within {} s, so pergpu can't check whether sweep "
                               "{} has its results there. {}",
                               root, kFoldersPatience / kSecond, own->name, kThen)});
      });
}

struct SubmitFolders::Search {
  std::string name = {};
  std::string folder = {};
  ResultSearch files;
  Judged then = {};
  std::int64_t begun_ns = 0;
  std::vector<FoundResult> results = {};
  bool is_whole = true;  // `results` are all that lie there
};

void SubmitFolders::judge(const std::string& root, const std::string& name, Judged then) const {
  if (!parts_.aside) return then({});
  const std::string folder = root + "/" + name;
  search(std::make_shared<Search>(Search{.name = name,
                                         .folder = folder,
                                         .files = ResultSearch(folder),
                                         .then = std::move(then),
                                         .begun_ns = now()}));
}

void SubmitFolders::search(const std::shared_ptr<Search>& search) const {
  look().until(
      search->begun_ns + kFoldersPatience, [search] { return search->files.next(kFoldersAtOnce); },
      [this, search](const std::vector<FoundResult>& found) { take(search, found); },
      [search] {
        search->then({.why = fmt::format("{} couldn't be read within {} s, so pergpu can't check "
                                         "whether it contains results. {}",
                                         search->folder, kFoldersPatience / kSecond, kThen)});
      });
}

void SubmitFolders::take(const std::shared_ptr<Search>& search,
                         const std::vector<FoundResult>& found) const {
  if (const std::string& trouble = search->files.trouble(); !trouble.empty()) {
    return search->then(
        {.why = fmt::format("can't check whether the folder contains results: {}. {}", trouble,
                            kThen)});
  }
  for (const FoundResult& result : found) {
    if (!is_cleaned(*parts_.world, parts_.home, result)) search->results.push_back(result);
  }
  const bool is_slow = now() >= search->begun_ns + kForAll;
  const bool is_enough =
      search->results.size() >= kMostResults ||
      (is_slow && std::ranges::any_of(search->results,
                                      [](const FoundResult& one) { return one.state == "done"; }));
  search->is_whole = search->files.is_over();
  search->is_whole || is_enough ? compare(search) : this->search(search);
}

void SubmitFolders::compare(const std::shared_ptr<Search>& search) const {
  if (search->results.empty()) return search->then({});
  const std::vector<SweepId> known = sweeps_of(*parts_.world, parts_.home, search->results);
  std::vector<SweepId> archived;
  for (const SweepId id : known) {
    if (parts_.world->archived().contains(id)) archived.push_back(id);
  }
  parts_.fetch(std::move(archived),
               [this, search, known](const Result<void>& /*what is not there is unknown*/) {
                 compare_roots(search, known);
               });
}

/// Where the results were before: moved, or still there.
void SubmitFolders::compare_roots(const std::shared_ptr<Search>& search,
                                  const std::vector<SweepId>& known) const {
  std::vector<std::pair<SweepId, std::string>> folders;
  for (const SweepId id : known) {
    if (const Sweep* sweep = parts_.world->sweep(id)) folders.emplace_back(id, sweep->folder());
  }
  const auto judged = [this, search](const std::vector<KnownRoot>& roots) {
    search->then(judge_results(*parts_.world, search->results, roots, search->folder, search->name,
                               search->is_whole));
  };
  if (folders.empty()) return judged({});
  const auto looked = std::make_shared<std::atomic<std::size_t>>(0);
  look().until(
      now() + kFoldersPatience,
      [folders, looked] {
        std::vector<KnownRoot> roots;
        for (const auto& [id, path] : folders) {
          roots.push_back({id, os::exists(path)});
          ++*looked;
        }
        return roots;
      },
      judged,
      [search, folders, looked] {
        const std::string& where = folders[std::min(looked->load(), folders.size() - 1)].second;
        search->then(
            {.why = fmt::format("{} contains results, and {} didn't respond within {} s, so pergpu "
                                "can't check whether they were moved or copied from there. {}",
                                search->folder, where, kFoldersPatience / kSecond, kThen)});
      });
}

}  // namespace pergpu
