// Numbers of the C interface never change, whatever becomes of the enumerations here.
#include "share/c/border.h"

#include <algorithm>

#include "os/clock.h"
#include "version.h"

namespace pergpu::share {
namespace {

std::int32_t code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::NotFound:
      return PERGPU_SHARE_NOT_FOUND;
    case ErrorKind::Busy:
      return PERGPU_SHARE_BUSY;
    case ErrorKind::Invalid:
      return PERGPU_SHARE_INVALID;
    case ErrorKind::Unavailable:
      return PERGPU_SHARE_UNAVAILABLE;
    case ErrorKind::Corrupt:
      return PERGPU_SHARE_CORRUPT;
    case ErrorKind::Denied:
      return PERGPU_SHARE_DENIED;
    case ErrorKind::Full:
      return PERGPU_SHARE_FULL;
    case ErrorKind::Io:
      break;
  }
  return PERGPU_SHARE_IO;
}

}  // namespace

std::int32_t tell(pergpu_share_error* into, const Error& error) noexcept {
  return tell(into, error.kind, error.os_errno, error.message);
}

std::int32_t tell(pergpu_share_error* into, ErrorKind kind, int os_errno,
                  std::string_view words) noexcept {
  const std::int32_t code = code_of(kind);
  if (into == nullptr) return code;
  into->code = code;
  into->os_errno = os_errno;
  const std::size_t length = std::min(words.size(), sizeof(into->message) - 1);
  std::memcpy(into->message, words.data(), length);
  into->message[length] = '\0';
  return code;
}

Error invalid(std::string message) { return {ErrorKind::Invalid, EINVAL, std::move(message)}; }

std::int32_t outcome_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ready:
      return PERGPU_SHARE_READY;
    case Outcome::TimedOut:
      return PERGPU_SHARE_TIMED_OUT;
    case Outcome::Interrupted:
      return PERGPU_SHARE_INTERRUPTED;
    case Outcome::Ended:
      return PERGPU_SHARE_ENDED;
    case Outcome::PeerDied:
      return PERGPU_SHARE_PEER_DIED;
    case Outcome::PeerLeft:
      return PERGPU_SHARE_PEER_LEFT;
    case Outcome::Corrupt:
      return PERGPU_SHARE_BAD_MEMORY;
    case Outcome::Stale:
      break;
  }
  return PERGPU_SHARE_STALE;
}

Result<bool> flag(std::uint32_t value, const char* name) {
  if (value <= 1) return value == 1;
  return invalid(std::string(name) + " is " + std::to_string(value) + ": expected 0 or 1");
}

}  // namespace pergpu::share

using pergpu::share::Outcome;

std::uint32_t pergpu_share_abi() { return PERGPU_SHARE_ABI; }
const char* pergpu_share_version() { return PERGPU_VERSION; }

const char* pergpu_share_code_name(std::int32_t code) {
  static constexpr const char* kNames[] = {"ok",      "not found", "busy", "invalid", "unavailable",
                                           "corrupt", "denied",    "full", "io"};
  return code >= PERGPU_SHARE_OK && code <= PERGPU_SHARE_IO ? kNames[code] : "";
}

const char* pergpu_share_outcome_name(std::int32_t outcome) {
  static constexpr const char* kNames[] = {"ready",     "timed out", "interrupted", "ended",
                                           "peer died", "peer left", "bad memory",  "stale"};
  return outcome >= PERGPU_SHARE_READY && outcome <= PERGPU_SHARE_STALE ? kNames[outcome] : "";
}

std::int64_t pergpu_share_deadline(std::int64_t nanoseconds) {
  if (nanoseconds <= 0) return 0;
  const std::int64_t now = pergpu::os::awake_now_ns();
  return nanoseconds < PERGPU_SHARE_FOREVER - now ? now + nanoseconds : PERGPU_SHARE_FOREVER;
}
