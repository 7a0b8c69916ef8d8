// A file of a line or two, replaced as a whole; one that is not there is not the same as one that
// cannot be read.
#include "slurm/handover_owner.h"

#include <fmt/format.h>

#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/fs/written_file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestOwnerFile = 1u << 16;

/// "": there is none.
Result<std::string> text_of(const std::string& path) {
  Result<std::string> text = os::read_written(path, os::Writer::Job, kLongestOwnerFile);
  if (!text && text.error().kind == ErrorKind::NotFound) return std::string();
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string words_of_owner(const std::string& who) {
  const std::size_t colon = who.find(':');
  if (colon == std::string::npos) return who;
  return fmt::format("{} (home {})", who.substr(0, colon), who.substr(colon + 1));
}

std::string to_text(const Owner& owner) { return owner.who + (owner.is_new ? "\nnew\n" : "\n"); }

Result<std::optional<Owner>> owner_of(const std::string& folder) {
  const Result<std::string> text = text_of(folder + "/" + kOwner);
  if (!text) return text.error();
  if (text->empty()) return std::optional<Owner>();
  return std::optional(Owner{first_line(*text), text->ends_with("\nnew\n")});
}

Result<std::string> claimant_of(const std::string& root) {
  const Result<std::string> text = text_of(root + "/" + kOwner);
  if (!text) return text.error();
  return first_line(*text);
}

Result<void> claim(const std::string& root, const std::string& who, std::int64_t umask) {
  const std::string results = os::parent_of(os::parent_of(root));
  const auto made = os::make_below(results, root, static_cast<mode_t>(0777 & ~umask));
  if (!made) return made.error();
  return os::write_below(results, root + "/" + kOwner, to_text(Owner{who}), handover_mode(umask),
                         true);
}

Result<void> check_claim(const std::string& root, const std::string& who) {
  const Result<std::string> claimant = claimant_of(root);
  if (!claimant) return Error{ErrorKind::Unavailable, 0, claimant.error().message};
  if (!claimant->empty() && *claimant != who) return Error{ErrorKind::Busy, 0, *claimant};
  return {};
}

}  // namespace pergpu
