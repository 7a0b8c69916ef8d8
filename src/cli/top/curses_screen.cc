// Bytes of keys are put together here and not by get_wch(), which on bytes that are not UTF-8 gives
// the same error forever.
#include "cli/top/curses_screen.h"

#include <langinfo.h>
#include <wchar.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "view/text/utf8.h"

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>

namespace pergpu::cli {
namespace {

using Name = view::TopKey::Name;

/// How long after an Esc the rest of a key's sequence may take; ncurses would wait a second.
constexpr int kEscapeMs = 25;

short pair_of(view::Colour colour) { return static_cast<short>(colour); }

short curses_colour(view::Colour colour) {
  switch (colour) {
    case view::Colour::Default:
      return -1;
    case view::Colour::Red:
      return COLOR_RED;
    case view::Colour::Green:
      return COLOR_GREEN;
    case view::Colour::Yellow:
      return COLOR_YELLOW;
    case view::Colour::Blue:
      return COLOR_BLUE;
    case view::Colour::Magenta:
      return COLOR_MAGENTA;
    case view::Colour::Cyan:
      return COLOR_CYAN;
  }
  return -1;
}

bool start_colours() {
  if (!::has_colors() || ::start_color() == ERR) return false;
  const bool has_default = ::use_default_colors() == OK;
  for (const view::Colour colour :
       {view::Colour::Red, view::Colour::Green, view::Colour::Yellow, view::Colour::Blue,
        view::Colour::Magenta, view::Colour::Cyan}) {
    const short background = has_default ? short{-1} : short{COLOR_BLACK};
    if (::init_pair(pair_of(colour), curses_colour(colour), background) == ERR) return false;
  }
  return true;
}

/// Makes the C library, and with it ncurses, speak UTF-8; false: ASCII only.
bool start_locale(bool wants_unicode) {
  const auto speaks_utf8 = [] { return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0; };
  if (!wants_unicode) return false;
  if (std::setlocale(LC_CTYPE, "") != nullptr && speaks_utf8()) return true;
  return std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr && speaks_utf8();
}

attr_t attributes_of(const view::Look& look) {
  attr_t out = A_NORMAL;
  if (look.bold) out |= A_BOLD;
  if (look.dim) out |= A_DIM;
  if (look.reverse) out |= A_REVERSE;
  return out;
}

/// What the C library cannot show is a question mark; marks beyond what a cell holds are left out.
cchar_t cell_of(const view::GridCell& cell, bool has_colour) {
  wchar_t text[CCHARW_MAX + 1] = {};
  std::size_t count = 0;
  for (std::size_t at = 0; at < cell.text.size() && count < CCHARW_MAX - 1;) {
    const auto code = static_cast<wchar_t>(view::next_code_point(cell.text, &at));
    const int columns = ::wcwidth(code);
    if (count == 0) {
      text[count++] = columns > 0 ? code : L'?';
    } else if (columns == 0) {
      text[count++] = code;
    }
  }
  cchar_t out;
  const short pair = has_colour ? pair_of(cell.look.colour) : short{0};
  ::setcchar(&out, text, attributes_of(cell.look), pair, nullptr);
  return out;
}

Name name_of(int code) {
  if (code == KEY_F(1)) return Name::F1;
  if (code == KEY_F(3)) return Name::F3;
  if (code == KEY_F(4)) return Name::F4;
  if (code == KEY_F(6)) return Name::F6;
  if (code == KEY_F(9)) return Name::F9;
  if (code == KEY_F(10)) return Name::F10;
  switch (code) {
    case KEY_UP:
      return Name::Up;
    case KEY_DOWN:
      return Name::Down;
    case KEY_PPAGE:
      return Name::PageUp;
    case KEY_NPAGE:
      return Name::PageDown;
    case KEY_HOME:
      return Name::Home;
    case KEY_END:
      return Name::End;
    case KEY_ENTER:
      return Name::Enter;
    case KEY_BACKSPACE:
      return Name::Backspace;
    default:
      return Name::Other;
  }
}

}  // namespace

Result<std::unique_ptr<CursesScreen>> CursesScreen::open(bool wants_colour, bool wants_unicode) {
  std::unique_ptr<CursesScreen> screen(new CursesScreen());
  screen->is_unicode_ = start_locale(wants_unicode);
  screen->screen_ = ::newterm(nullptr, stdout, stdin);
  if (screen->screen_ == nullptr) {
    const char* type = std::getenv("TERM");
    return Error{ErrorKind::Invalid, 0,
                 std::string("top: unknown terminal type `") + (type ? type : "") +
                     "` (TERM); print one frame with `pergpu top --once`"};
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(kEscapeMs);
  ::typeahead(-1);  // a frame is not put off because a key waits
  ::curs_set(0);
  screen->has_colour_ = wants_colour && start_colours();
  return screen;
}

CursesScreen::~CursesScreen() {
  if (screen_ == nullptr) return;
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(screen_));
}

void CursesScreen::suspend() { ::endwin(); }

void CursesScreen::resume() {
  ::reset_prog_mode();
  ::curs_set(0);
  forget();
}

void CursesScreen::resize(int columns, int rows) {
  ::resizeterm(rows, columns);
  forget();
}

void CursesScreen::forget() { ::clearok(stdscr, TRUE); }

void CursesScreen::draw(const view::Grid& grid) {
  ::werase(stdscr);
  const view::GridCell blank;
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      const view::GridCell& cell = grid.at(row, column);
      if (cell.text.empty() || cell == blank) continue;
      const cchar_t out = cell_of(cell, has_colour_);
      // In the last cell of all this reports an error, but writes.
      ::mvwadd_wch(stdscr, row, column, &out);
    }
  }
  ::wrefresh(stdscr);
}

std::optional<view::TopKey> CursesScreen::next_key() {
  for (;;) {
    const int code = ::wgetch(stdscr);
    if (code == ERR) return std::nullopt;
    if (code == KEY_RESIZE) continue;  // resize() was called after a signal
    if (code > 0xff) {
      bytes_.clear();
      return view::TopKey{.name = name_of(code)};
    }
    if (std::optional<view::TopKey> key = decode(code)) return key;
  }
}

std::optional<view::TopKey> CursesScreen::decode(int byte) {
  if (byte < 0x80) {
    bytes_.clear();
    if (byte == '\r' || byte == '\n') return view::TopKey{.name = Name::Enter};
    if (byte == 0x1b) return view::TopKey{.name = Name::Escape};
    if (byte == 0x7f || byte == 0x08) return view::TopKey{.name = Name::Backspace};
    return view::TopKey{.name = Name::Char, .code = static_cast<std::uint32_t>(byte)};
  }
  bytes_ += static_cast<char>(byte);
  std::size_t at = 0;
  const std::uint32_t code = view::next_code_point(bytes_, &at);
  if (code == view::kInvalid) {
    if (bytes_.size() >= 4) bytes_.clear();
    return std::nullopt;
  }
  bytes_.clear();
  return view::TopKey{.name = Name::Char, .code = code};
}

}  // namespace pergpu::cli
