// Entries are ended by a NUL, as in /proc/<pid>/environ, because values may hold newlines.
#include "store/environment.h"

#include <unistd.h>

#include "os/fs/file.h"

namespace pergpu::store {

EnvironmentFiles::EnvironmentFiles(const std::string& store_path)
    : folder_(os::parent_of(store_path) + "/env") {}

std::string EnvironmentFiles::path_of(SweepId sweep) const {
  return folder_ + "/" + std::to_string(sweep.value);
}

Result<void> EnvironmentFiles::write(const row::Environment& environment) const {
  if (!os::is_directory(folder_)) {
    if (Result<void> made = os::make_dirs(folder_, 0700); !made) return made;
    if (Result<void> kept = os::sync_dir(os::parent_of(folder_)); !kept) return kept;
  }
  std::string content;
  for (const std::string& entry : environment.entries) {
    content += entry;
    content += '\0';
  }
  return os::write_file_atomic(path_of(environment.sweep), content, 0600, /*durable=*/true);
}

void EnvironmentFiles::remove(SweepId sweep) const { ::unlink(path_of(sweep).c_str()); }

}  // namespace pergpu::store
