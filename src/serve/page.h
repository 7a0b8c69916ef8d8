// The web page's files, embedded in the program when it was built (web/, cmake/embed-page.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace pergpu::serve {

struct PageFile {
  std::string_view path = {};  // "/", "/app.js"
  std::string_view type = {};  // Content-Type
  std::string_view etag = {};  // with its quotes; another one when the content is another
  std::string_view gzip = {};  // the content, compressed
};

/// Empty: built with PERGPU_PAGE=OFF.
const std::vector<PageFile>& page_files();

}  // namespace pergpu::serve
