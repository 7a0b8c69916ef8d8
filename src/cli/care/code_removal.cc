// All of it happens in one folder of the home, which only this user can write to.
#include "cli/care/code_removal.h"

#include <cerrno>
#include <optional>
#include <utility>

#include "coordinator/code_place.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"

namespace pergpu::cli {
namespace {

/// nullopt: nothing was ever copied to the home.
Result<std::optional<os::HeldFolder>> hold_copies(const std::string& folder) {
  Result<os::HeldFolder> held = os::HeldFolder::open(folder);
  if (held) return std::optional(*std::move(held));
  if (held.error().os_errno == ENOENT) return std::optional<os::HeldFolder>();
  return std::move(held).error();
}

Result<void> remove_in(const std::string& folder, const std::string& name) {
  const Result<std::optional<os::HeldFolder>> held = hold_copies(folder);
  if (!held) return held.error();
  return *held ? (*held)->remove_tree(name) : Result<void>();
}

}  // namespace

CodeRemoval::CodeRemoval(const std::string& home, const std::string& sweep, std::string aside)
    : aside_(std::move(aside)) {
  const std::string place = code_in_home(home, sweep);
  folder_ = os::parent_of(place);
  name_ = os::name_of(place);
}

Result<void> CodeRemoval::put_aside() const {
  const Result<std::optional<os::HeldFolder>> held = hold_copies(folder_);
  if (!held) return held.error();
  if (!*held) return {};
  const Result<std::optional<struct stat>> found = (*held)->look_at(name_);
  if (!found) return found.error();
  if (!*found) return {};
  // Of a `clean` that was killed; the sweep was submitted again since.
  if (Result<void> removed = (*held)->remove_tree(aside_); !removed) return removed;
  if (Result<void> moved = (*held)->rename(name_, aside_); !moved) return moved;
  return (*held)->sync();
}

void CodeRemoval::put_back() const {
  const Result<std::optional<os::HeldFolder>> held = hold_copies(folder_);
  if (held && *held) (void)(*held)->rename(aside_, name_);
}

Result<void> CodeRemoval::remove_aside() const { return remove_in(folder_, aside_); }

Result<void> CodeRemoval::remove() const {
  Result<void> removed = remove_aside();
  return removed ? remove_in(folder_, name_) : removed;
}

}  // namespace pergpu::cli
