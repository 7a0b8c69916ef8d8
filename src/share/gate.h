// One at a time changes who has which place of a channel: attaching, writing down a death, and what
// is done with what the dead one left.  Nothing of that is on the way of an item.
//
// The gate is a word with the owner in it.  Who dies inside is found dead by the next one, who goes
// in; all that is done inside can be stopped anywhere and done again.
#pragma once

#include <cstdint>
#include <optional>

#include "result.h"
#include "share/channel_layout.h"

namespace pergpu::share {

class Gate {
 public:
  /// nullopt: another thread is inside.
  static std::optional<Gate> try_enter(const Layout& layout);
  /// Waits up to two seconds.  ErrorKind::Busy names who is inside.
  static Result<Gate> enter(const Layout& layout);

  Gate(Gate&& other) noexcept;
  Gate& operator=(Gate&&) = delete;
  ~Gate();

 private:
  Gate(std::atomic<std::uint64_t>* word, std::uint64_t mine) : word_(word), mine_(mine) {}

  std::atomic<std::uint64_t>* word_ = nullptr;
  std::uint64_t mine_ = 0;
};

}  // namespace pergpu::share
