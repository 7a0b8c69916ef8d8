// Bytes of a connection -> requests, by Boost.Beast's parser.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "result.h"
#include "serve/http.h"

namespace pergpu::serve {

inline constexpr std::size_t kMostHeadBytes = 16u << 10;
inline constexpr std::size_t kMostBodyBytes = 1u << 20;

class HttpParser {
 public:
  HttpParser();
  ~HttpParser();

  void add(std::string_view bytes);

  struct Refusal {
    int status = 400;
    std::string words = {};
  };
  /// The next whole request; nullopt: it has not come whole yet, or refusal() says what is wrong
  /// with it.  After a refusal nothing more is read.
  std::optional<HttpRequest> next();
  const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  struct Message;
  std::optional<HttpRequest> refuse(int status, std::string words);

  std::unique_ptr<Message> message_;
  std::string unread_;
  std::optional<Refusal> refusal_;
};

}  // namespace pergpu::serve
