// What an end of a channel was told, in words.
#pragma once

#include "share/slot.h"

namespace pergpu::share {

inline const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ready:
      return "ready";
    case Outcome::TimedOut:
      return "timed out";
    case Outcome::Interrupted:
      return "interrupted";
    case Outcome::Ended:
      return "ended";
    case Outcome::PeerDied:
      return "peer died";
    case Outcome::PeerLeft:
      return "peer left";
    case Outcome::Corrupt:
      return "corrupt";
    case Outcome::Stale:
      return "stale";
  }
  return "";
}

}  // namespace pergpu::share
