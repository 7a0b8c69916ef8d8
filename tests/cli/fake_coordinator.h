// A coordinator that does what a test says: it speaks the protocol of api/snapshot.h on a
// socket of its own, one thread a connection, and remembers every request.
#pragma once

#include <sys/socket.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/fd.h"
#include "os/ipc/accept.h"
#include "os/ipc/socket.h"
#include "program.h"

namespace pergpu::cli {

class FakeCoordinator {
 public:
  using json = nlohmann::json;

  /// One connection, greeted.
  class Session {
   public:
    Session(FakeCoordinator& owner, int fd) : owner_(owner), fd_(fd) {}
    /// "" when the peer has gone.
    std::string read_line() {
      for (;;) {
        const std::size_t end = read_.find('\n');
        if (end != std::string::npos) {
          std::string line = read_.substr(0, end);
          read_.erase(0, end + 1);
          return line;
        }
        std::array<char, 4096> block;
        const ssize_t n = ::recv(fd_, block.data(), block.size(), 0);
        if (n <= 0) return "";
        read_.append(block.data(), static_cast<std::size_t>(n));
      }
    }
    void send(const json& value) {
      const std::string line = value.dump() + "\n";
      [[maybe_unused]] const ssize_t n = ::send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
    }
    void reply(const json& data) { send({{"ok", true}, {"data", data}}); }
    void refuse(int code, const std::string& error) {
      send({{"ok", false}, {"code", code}, {"error", error}});
    }
    /// Blocks until the test says so (or it is over).
    void wait_for(const std::string& signal) { owner_.wait_until_raised(signal); }

   private:
    FakeCoordinator& owner_;
    int fd_;
    std::string read_;
  };

  /// Called for each request line; returning false closes the connection.
  using Handler = std::function<bool(Session&, const json& request)>;

  FakeCoordinator(const std::string& socket, Handler handler,
                  json hello = {{"protocol", 1}, {"version", "99.0.0"}, {"pid", 4711}})
      : handler_(std::move(handler)), hello_(std::move(hello)) {
    Result<os::UniqueFd> listener = os::listen_unix(socket);
    EXPECT_TRUE(listener) << listener.error().message;
    listener_ = std::move(*listener);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeCoordinator() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    acceptor_.join();
    for (std::thread& session : sessions_) session.join();
  }

  /// Lets every Session::wait_for(signal) go on.
  void raise(const std::string& signal) {
    {
      const std::lock_guard lock(mutex_);
      raised_.push_back(signal);
    }
    changed_.notify_all();
  }

  /// All requests with this op so far.
  std::vector<json> requests(const std::string& op) {
    const std::lock_guard lock(mutex_);
    std::vector<json> found;
    for (const json& request : requests_) {
      if (request.value("op", "") == op) found.push_back(request);
    }
    return found;
  }

 private:
  void accept_all() {
    for (;;) {
      pollfd ready{listener_.get(), POLLIN, 0};
      ::poll(&ready, 1, 20);
      {
        const std::lock_guard lock(mutex_);
        if (over_) {
          for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
          return;
        }
      }
      Result<os::UniqueFd> fd = os::accept_from(listener_.get());
      if (!fd) continue;
      ::fcntl(fd->get(), F_SETFL, 0);  // blocking: a thread serves it
      sessions_.emplace_back([this, fd = fd->release()] { serve(os::UniqueFd(fd)); });
    }
  }

  void serve(os::UniqueFd fd) {
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(fd.get());
    }
    Session session(*this, fd.get());
    const std::string hello = session.read_line();
    if (!hello.empty()) session.reply(hello_);
    for (;;) {
      const std::string line = session.read_line();
      if (line.empty()) break;
      const json request = json::parse(line, nullptr, false);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      if (!handler_(session, request)) break;
    }
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd.get());
    fd.reset();
  }

  void wait_until_raised(const std::string& signal) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return over_ || std::find(raised_.begin(), raised_.end(), signal) != raised_.end();
    });
  }

  Handler handler_;
  json hello_;
  os::UniqueFd listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<int> open_;
  std::vector<std::string> raised_;
  std::vector<json> requests_;
  std::vector<std::thread> sessions_;
  std::thread acceptor_;
};

}  // namespace pergpu::cli
