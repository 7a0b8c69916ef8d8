// Whether a file that a program was to leave is there, named by its path or by a pattern.
//
// A pattern is a path with `*`, `?`, `[…]` or `**` (folders of any depth) in it, as a shell reads
// them: names that begin with a dot are matched by a dot only, `\` and `[*]` make a sign stand for
// itself.  A file whose name is the pattern's own text counts, too.
#pragma once

#include <time.h>

#include <optional>
#include <string>
#include <string_view>

namespace pergpu::os {

/// Why the file is not as it should be: "does not exist", "is empty", "is older than the attempt",
/// or why it cannot be looked at; "": it is.  A folder counts by its entries: it needs one, and the
/// newest of them (or itself) must be as new as `since`, where that is given.
std::string why_not_there(const std::string& path, std::optional<timespec> since);

/// The same of an absolute pattern, of which one match suffices: "matches no file", "matches
/// empty files only", …
std::string why_no_match(const std::string& pattern, std::optional<timespec> since);

/// False: the file could not be looked at (rights, a file server), so nothing is known of it.
bool is_known_missing(std::string_view why);

/// `text` as a pattern that only `text` matches.
std::string escape_pattern(std::string_view text);

}  // namespace pergpu::os
