// What the keys of `top` do: those of nvitop and htop where these have one for it (docs/top.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/top/top.h"

namespace pergpu::view {

struct TopKey {
  enum class Name : std::uint8_t {
    Char,  // `code`
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    F1,
    F3,
    F4,
    F6,
    F9,
    F10,
    Other,
  };
  Name name = Name::Other;
  std::uint32_t code = 0;  // a code point
};

struct TopStep {
  TopState state = {};
  TopAction action = {};
};

/// What the key makes of the state, and what is to be done.  REQUIRES: settle() was called.
TopStep press(TopState state, const TopKey& key, const TopSnapshot& snapshot,
              const TopSurface& surface);

/// The page that explains the keys.
TopState::Page help_page(bool readonly);

}  // namespace pergpu::view
