// HTTP/1.1 as values: a request that was read, an answer that is to be written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pergpu::serve {

struct HttpRequest {
  std::string method = {};
  std::string path = {};                           // decoded, without the query: "/api/jobs/17"
  std::map<std::string, std::string> query = {};   // decoded; of a name that comes twice the last
  std::map<std::string, std::string> fields = {};  // by name in small letters; none comes twice
  std::string body = {};
  bool keep_alive = true;

  /// "" when there is no such field.
  std::string_view field(const std::string& name) const;
  /// The same of the query.
  std::string_view parameter(const std::string& name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = {};  // Content-Type
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};  // further ones
};

/// {"error":"…"}, for programs.
HttpResponse error_response(int status, std::string_view words);

/// Status line and fields, the blank line included.  `length` < 0: the body has no end but that of
/// the connection.  `now_s`: seconds since 1970, for Date.
std::string head_of(const HttpResponse& response, std::int64_t length, bool keep_alive,
                    std::int64_t now_s);

/// The target of a request into path and query ("/a%20b?x=1&y"), decoded.  False: malformed.
bool split_target(std::string_view target, std::string& path,
                  std::map<std::string, std::string>& query);

/// A whole number from 1, as addresses have it; 0: it is none.
std::int64_t number_in(std::string_view text);

}  // namespace pergpu::serve
