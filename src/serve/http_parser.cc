// A field that comes twice is refused whatever it is: two readers of the same request must not
// differ in which one counts (Host, Origin, Content-Length).
#include "serve/http_parser.h"

// Boost may take std::result_of, which C++20 has no more, unless it's configured for the other.
#ifndef BOOST_ASIO_HAS_STD_INVOKE_RESULT
#define BOOST_ASIO_HAS_STD_INVOKE_RESULT 1
#endif
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <utility>

namespace pergpu::serve {

namespace http = boost::beast::http;

struct HttpParser::Message {
  http::request_parser<http::string_body> parser;
  Message() {
    parser.eager(true);
    parser.header_limit(kMostHeadBytes);
    parser.body_limit(kMostBodyBytes);
  }
};

namespace {

std::string small(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

HttpParser::HttpParser() : message_(std::make_unique<Message>()) {}
HttpParser::~HttpParser() = default;

void HttpParser::add(std::string_view bytes) {
  if (!refusal_) unread_.append(bytes);
}

std::optional<HttpRequest> HttpParser::refuse(int status, std::string words) {
  refusal_ = Refusal{status, std::move(words)};
  unread_.clear();
  return std::nullopt;
}

std::optional<HttpRequest> HttpParser::next() {
  if (refusal_) return std::nullopt;
  auto& parser = message_->parser;
  // put() takes the head as a whole, then the body piece by piece.
  while (!parser.is_done() && !unread_.empty()) {
    boost::system::error_code code;
    const std::size_t taken = parser.put(boost::asio::buffer(unread_), code);
    unread_.erase(0, taken);
    if (code == http::error::need_more) break;
    if (code == http::error::header_limit) return refuse(431, "the request headers are too long");
    if (code == http::error::body_limit) return refuse(413, "the request body is too long");
    if (code) return refuse(400, "not an HTTP request: " + code.message());
  }
  if (!parser.is_done()) {
    if (unread_.size() > kMostHeadBytes) return refuse(431, "the request headers are too long");
    return std::nullopt;
  }

  http::request<http::string_body> message = parser.release();
  message_ = std::make_unique<Message>();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.keep_alive = message.keep_alive();
  request.body = std::move(message.body());
  const auto target = message.target();
  if (!split_target({target.data(), target.size()}, request.path, request.query)) {
    return refuse(400, "malformed request target");
  }
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    if (!request.fields
             .emplace(small({name.data(), name.size()}), std::string(value.data(), value.size()))
             .second) {
      return refuse(400, "duplicate header field");
    }
  }
  return request;
}

}  // namespace pergpu::serve
