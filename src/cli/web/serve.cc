// `pergpu serve`: the web page, on the loopback interface.  A client like any other: ending it ends
// nothing else.  Who may ask is serve/guard.h's, the answers are cli/web/web_app.h's.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "cli/term/standard_output.h"
#include "cli/web/web_app.h"
#include "os/fs/file.h"
#include "os/ipc/tcp.h"
#include "os/loop.h"
#include "os/random.h"
#include "serve/http_server.h"
#include "serve/page.h"

namespace pergpu::cli {
namespace {

constexpr std::uint16_t kPort = 7171;
/// Of users on one machine each gets the next port that is free.
constexpr int kMostTried = 50;
constexpr std::size_t kSecretBytes = 32;

struct ServeOptions {
  std::optional<std::uint16_t> port = std::nullopt;
  std::vector<std::string> hosts = {};
  bool readonly = false;
};

/// The secret of programs: kept, so that they find it in its file.  No browser ever gets it.  A
/// file that others could read is not trusted.
Result<std::string> secret_in(const std::string& home) {
  const std::string path = home + "/web-token";
  const auto is_secret = [](const std::string& text) {
    return text.size() == 2 * kSecretBytes &&
           text.find_first_not_of("0123456789abcdef") == std::string::npos;
  };
  struct stat info {};
  const bool is_private = ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                          (info.st_mode & 077) == 0 && info.st_uid == ::geteuid();
  if (is_private) {
    const Result<std::string> kept = os::read_file(path, 1024);
    if (kept && is_secret(*kept)) return *kept;
  }
  std::string made = os::random_hex(kSecretBytes);
  if (Result<void> written = os::write_file_atomic(path, made, 0600, false); !written) {
    return std::move(written).error();
  }
  return made;
}

Result<os::UniqueFd> listen_for(const ServeOptions& options) {
  if (options.port) {
    Result<os::UniqueFd> listener = os::listen_loopback(*options.port);
    if (listener || listener.error().kind != ErrorKind::Busy) return listener;
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("port {} is in use; `--port 0` picks a free one", *options.port)};
  }
  for (int i = 0;; ++i) {
    Result<os::UniqueFd> listener = os::listen_loopback(static_cast<std::uint16_t>(kPort + i));
    const bool is_busy = !listener && listener.error().kind == ErrorKind::Busy;
    if (!is_busy || i == kMostTried) return listener;
  }
}

/// What a browser gets before it is let in: the page itself, at `/login` with a token in the query.
std::vector<std::string> open_paths() {
  std::vector<std::string> paths = {"/", "/login"};
  for (const serve::PageFile& file : serve::page_files()) paths.emplace_back(file.path);
  return paths;
}

/// What Host may be: the loopback address and its names, and those of a tunnel.
std::vector<std::string> hosts_of(const ServeOptions& options, std::uint16_t port) {
  std::vector<std::string> hosts = {fmt::format("127.0.0.1:{}", port),
                                    fmt::format("localhost:{}", port)};
  for (const std::string& host : options.hosts) hosts.push_back(host);
  return hosts;
}

int serve_page(const ServeOptions& options) {
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  Result<std::string> secret = secret_in(place->home);
  if (!secret) return fail(secret.error());
  Result<os::UniqueFd> listener = listen_for(options);
  if (!listener) return fail(listener.error());
  const Result<std::uint16_t> port = os::port_of(listener->get());
  if (!port) return fail(port.error());
  Result<std::unique_ptr<os::Loop>> made = os::Loop::create();
  if (!made) return fail(made.error());
  os::Loop& loop = **made;

  int code = kOk;
  const Result<void> watched = loop.on_signals({SIGINT, SIGTERM, SIGHUP}, [&](int signal) {
    code = 128 + signal;
    loop.stop();
  });
  if (!watched) return fail(watched.error());

  bool is_first = true;
  WebApp app(
      loop, *place,
      {.hosts = hosts_of(options, *port),
       .secret = *std::move(secret),
       .session = os::random_hex(kSecretBytes),
       .open = open_paths(),
       .readonly = options.readonly},
      {.on_link =
           [&](const std::string& link) {
             const bool is_shown = print(link + "\n");
             standard_output().outlive_reader();  // of `serve | head -1`
             if (!is_shown && is_first) {
               code = kSomeFailed;  // no browser can log in
               loop.stop();
             } else if (is_first) {
               say("Open it in a browser; it works once. Ctrl-C stops the page; jobs continue.");
             } else {
               say("A browser has logged in; use the new link for another one.");
             }
             is_first = false;
           },
       .on_failed =
           [&](const Error& why) {
             code = fail(why);
             loop.stop();
           }});
  Result<std::unique_ptr<serve::HttpServer>> server =
      serve::HttpServer::open(loop, std::move(*listener),
                              [&](const std::shared_ptr<serve::Exchange>& e) { app.answer(e); });
  if (!server) return fail(server.error());
  app.start();
  const Result<void> ran = code == kOk ? loop.run() : Result<void>();
  if (!ran) return fail(ran.error());
  return code;
}

}  // namespace

void add_serve(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = program.add_subcommand(
      "serve", "serve the web page on the loopback address; prints a link that works once");
  command
      ->add_option("--port", options->port,
                   fmt::format("0: any free port (default: {}, or the next free one)", kPort))
      ->check(CLI::Range(0, 65535));
  command
      ->add_option("--host", options->hosts,
                   "NAME:PORT that a browser uses through a tunnel or proxy; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--readonly", options->readonly, "allow no changes to jobs");
  command->footer(
      "Example:\n"
      "  pergpu serve\n"
      "From another machine:\n"
      "  ssh -L 7171:127.0.0.1:7171 box     # then open the link here");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return serve_page(*options); }; });
}

}  // namespace pergpu::cli
