// ESC ] 9 ; 4 ; state ; percent ESC \ : 0 takes it away, 1 is progress, 2 progress with a failure.
#include "cli/term/terminal_signs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "os/process/paths.h"

namespace pergpu::cli {
namespace {

constexpr int kFirstVteWithProgress = 8000;  // 0.80.0, as VTE_VERSION writes it

std::string sequence(int state, int percent) {
  return fmt::format("\x1b]9;4;{};{}\x1b\\", state, percent);
}

}  // namespace

bool knows_progress(const std::function<std::string(const char* name)>& variable) {
  const std::string term = variable("TERM");
  const bool is_behind = !variable("TMUX").empty() || !variable("STY").empty() ||
                         term.starts_with("screen") || term.starts_with("tmux");
  if (is_behind || term == "dumb") return false;
  const std::string program = variable("TERM_PROGRAM");
  return !variable("WT_SESSION").empty() || variable("ConEmuANSI") == "ON" ||
         program == "ghostty" || program == "WezTerm" || term == "xterm-ghostty" ||
         std::atoi(variable("VTE_VERSION").c_str()) >= kFirstVteWithProgress;
}

TerminalSigns::TerminalSigns(int fd, bool bell, bool progress)
    : fd_(fd), bell_(bell), progress_(progress && knows_progress(os::environment_variable)) {}

void TerminalSigns::show(int percent, bool has_failed) {
  if (!progress_) return;
  std::string wanted = sequence(has_failed ? 2 : 1, percent);
  if (wanted == shown_) return;
  write(wanted);
  shown_ = std::move(wanted);
}

void TerminalSigns::clear() {
  if (shown_.empty()) return;
  shown_.clear();
  write(sequence(0, 0));
}

void TerminalSigns::ring() {
  if (bell_) write("\a");
}

void TerminalSigns::write(const std::string& bytes) {
  // A terminal that takes no bytes now misses a sign, no more.
  [[maybe_unused]] const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
}

}  // namespace pergpu::cli
