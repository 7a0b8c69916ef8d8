// Where files go is a matter of folders alone: the output root is three levels up.
#include "store/result_file.h"

#include "job/output_root.h"
#include "os/fs/folder_walk.h"

namespace pergpu::store {

Result<void> write_result_file(const std::string& folder, const std::string& name,
                               std::string_view content, mode_t mode, bool durable) {
  return os::write_below(output_root_of(folder), folder + "/" + name, content, mode, durable);
}

}  // namespace pergpu::store
