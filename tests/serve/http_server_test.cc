// The server over real sockets, on its loop in this thread; clients block in others.
#include "serve/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/ipc/tcp.h"

namespace pergpu::serve {
namespace {

constexpr std::int64_t kDeadline = 20'000'000'000;

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(*os::Loop::create());
    auto listener = os::listen_loopback(0);
    ASSERT_TRUE(listener);
    port_ = *os::port_of(listener->get());
    auto server =
        HttpServer::open(*loop_, std::move(*listener),
                         [this](const std::shared_ptr<Exchange>& exchange) { handler_(exchange); });
    ASSERT_TRUE(server);
    server_ = std::move(*server);
    loop_->at(os::boot_now_ns() + kDeadline, [this] {
      ADD_FAILURE() << "the deadline has passed";
      loop_->stop();
    });
  }

  os::UniqueFd connect() const {
    os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  static void send(const os::UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  /// Until `end` has come, or the server has closed.
  static std::string read_until(const os::UniqueFd& fd, const std::string& end) {
    std::string text;
    char block[4096];
    while (text.find(end) == text.npos) {
      const ssize_t n = ::recv(fd.get(), block, sizeof block, 0);
      if (n <= 0) break;
      text.append(block, static_cast<std::size_t>(n));
    }
    return text;
  }

  /// Runs the loop until `client`, in a thread of its own, is done.
  void run(const std::function<void()>& client) {
    std::jthread thread([&] {
      client();
      stop_soon();
    });
    EXPECT_TRUE(loop_->run());
  }

  /// From another thread: the loop learns it by a connection, whose request is named so.
  void stop_soon() {
    const os::UniqueFd fd = connect();
    send(fd, "GET /stop HTTP/1.1\r\nHost: h\r\n\r\n");
  }

  std::function<void(const std::shared_ptr<Exchange>&)> answer_ = {};
  std::function<void(const std::shared_ptr<Exchange>&)> handler_ =
      [this](const std::shared_ptr<Exchange>& exchange) {
        if (exchange->request().path == "/stop") {
          exchange->reply({.status = 200});
          return loop_->stop();
        }
        answer_(exchange);
      };
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_ = 0;
};

TEST_F(HttpServerTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  answer_ = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->reply({.type = "text/plain", .body = "[" + exchange->request().path + "]"});
  };
  std::string text;
  run([&] {
    const os::UniqueFd fd = connect();
    send(fd,
         "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"
         "GET /c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    text = read_until(fd, "never");
  });
  EXPECT_LT(text.find("[/a]"), text.find("[/b]"));
  EXPECT_LT(text.find("[/b]"), text.find("[/c]"));
  EXPECT_NE(text.find("[/c]"), text.npos);
}

TEST_F(HttpServerTest, AnAnswerMayComeLater) {
  answer_ = [this](const std::shared_ptr<Exchange>& exchange) {
    loop_->at(0, [exchange] { exchange->reply({.body = "later"}); });
  };
  std::string text;
  run([&] {
    const os::UniqueFd fd = connect();
    send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    text = read_until(fd, "later");
  });
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, AnAnswerForAClientThatHasGoneIsDropped) {
  std::shared_ptr<Exchange> kept;
  bool is_told = false;
  std::promise<void> taken;
  answer_ = [&](const std::shared_ptr<Exchange>& exchange) {
    kept = exchange;
    exchange->on_gone = [&] {
      is_told = true;
      loop_->stop();
    };
    taken.set_value();
  };
  std::jthread client([&] {
    os::UniqueFd fd = connect();
    const linger hard{.l_onoff = 1, .l_linger = 0};  // a reset: seen at once
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    taken.get_future().wait();
  });
  EXPECT_TRUE(loop_->run());
  ASSERT_TRUE(kept);
  kept->reply({.body = "too late"});
  server_.reset();
  kept->reply({.body = "too late"});
  EXPECT_TRUE(kept->is_gone());
  EXPECT_TRUE(is_told);
}

TEST_F(HttpServerTest, AClientThatClosesBeforeItsAnswerIsReadyHasGone) {
  std::shared_ptr<Exchange> kept;
  std::promise<void> taken;
  answer_ = [&](const std::shared_ptr<Exchange>& exchange) {
    kept = exchange;
    exchange->on_gone = [&] { loop_->stop(); };
    taken.set_value();
  };
  std::jthread client([&] {
    const os::UniqueFd fd = connect();
    send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    taken.get_future().wait();
  });
  EXPECT_TRUE(loop_->run());
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->is_gone());
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  answer_ = [](const std::shared_ptr<Exchange>& exchange) { exchange->reply({.body = "five5"}); };
  std::string text;
  run([&] {
    const os::UniqueFd fd = connect();
    send(fd, "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    text = read_until(fd, "never");
  });
  EXPECT_NE(text.find("Content-Length: 5"), text.npos);
  EXPECT_EQ(text.find("five5"), text.npos);
}

TEST_F(HttpServerTest, AStreamGoesOnUntilTheClientLeaves) {
  std::shared_ptr<Exchange> stream;
  bool is_gone = false;
  answer_ = [&](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/more") {
      stream->write("second\n");
      return exchange->reply({.status = 200});
    }
    stream = exchange;
    exchange->on_gone = [&] {
      is_gone = true;
      loop_->stop();
    };
    exchange->begin_stream("text/event-stream");
    exchange->write("first\n");
  };
  std::jthread client([&] {
    const os::UniqueFd fd = connect();
    send(fd, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_NE(read_until(fd, "first\n").find("text/event-stream"), std::string::npos);
    const os::UniqueFd other = connect();
    send(other, "GET /more HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(read_until(fd, "second\n"), "second\n");
  });
  EXPECT_TRUE(loop_->run());
  EXPECT_TRUE(is_gone);
}

TEST_F(HttpServerTest, WhoReadsSlowlyIsToldWhenThereIsRoom) {
  const std::string block(1u << 20, 'x');
  int drained = 0;
  answer_ = [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream("text/plain");
    exchange->on_drained = [&, exchange = exchange.get()] {
      if (++drained == 1) exchange->write(block);
      if (drained == 2) exchange->write("[end]");
    };
    for (int i = 0; i < 8; ++i) exchange->write(block);
    EXPECT_GT(exchange->pending(), block.size());
  };
  std::size_t size = 0;
  run([&] {
    const os::UniqueFd fd = connect();
    send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    size = read_until(fd, "[end]").size();
  });
  EXPECT_EQ(drained, 3);
  EXPECT_GT(size, 9 * block.size());
}

TEST_F(HttpServerTest, NonsenseIsRefusedAndTheConnectionEnds) {
  answer_ = [](const std::shared_ptr<Exchange>&) { FAIL() << "no request has come"; };
  std::string text;
  run([&] {
    const os::UniqueFd fd = connect();
    send(fd, "\x16\x03\x01 this is TLS\r\n\r\n");
    text = read_until(fd, "never");
  });
  EXPECT_TRUE(text.starts_with("HTTP/1.1 400 ")) << text;
}

TEST_F(HttpServerTest, TooManyIdleConnectionsShutNobodyOutThatWasLetIn) {
  answer_ = [](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/in") exchange->let_in();
    exchange->reply({.body = "[answer]"});
  };
  std::string before, after, fresh, oldest;
  run([&] {
    const os::UniqueFd known = connect();
    send(known, "GET /in HTTP/1.1\r\nHost: h\r\n\r\n");
    before = read_until(known, "[answer]");
    std::vector<os::UniqueFd> idle;
    for (int i = 0; i < 300; ++i) idle.push_back(connect());
    const os::UniqueFd late = connect();
    send(late, "GET /late HTTP/1.1\r\nHost: h\r\n\r\n");
    fresh = read_until(late, "[answer]");
    oldest = read_until(idle.front(), "never");  // returns: it was closed
    send(known, "GET /in HTTP/1.1\r\nHost: h\r\n\r\n");
    after = read_until(known, "[answer]");
  });
  EXPECT_TRUE(before.starts_with("HTTP/1.1 200 ")) << before;
  EXPECT_TRUE(fresh.starts_with("HTTP/1.1 200 ")) << fresh;
  EXPECT_TRUE(after.starts_with("HTTP/1.1 200 ")) << after;
  EXPECT_EQ(oldest, "");
}

TEST_F(HttpServerTest, ABodyThatIsTooLongIsRefusedInWordsThatArrive) {
  answer_ = [](const std::shared_ptr<Exchange>&) { FAIL() << "no request has come"; };
  std::string text;
  run([&] {
    const os::UniqueFd fd = connect();
    const std::string body(std::size_t{8} << 20, 'x');
    send(fd, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
                 "\r\n\r\n");
    send(fd, body);  // as Python's http.client does: the answer is read when all was sent
    text = read_until(fd, "never");
  });
  EXPECT_TRUE(text.starts_with("HTTP/1.1 413 ")) << text;
  EXPECT_NE(text.find("the request body is too long"), text.npos);
}

TEST_F(HttpServerTest, APortThatSomebodyHasIsBusy) {
  const auto again = os::listen_loopback(port_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::Busy);
}

}  // namespace
}  // namespace pergpu::serve
