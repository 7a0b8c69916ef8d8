// Names of signals, compared with those of the C library where it has them.
#include "job/signal_names.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

namespace pergpu {
namespace {

TEST(SignalNames, AreThoseOfTheCLibrary) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
  for (int number = -1; number <= NSIG; ++number) {
    const char* name = ::sigabbrev_np(number);
    EXPECT_EQ(short_signal_name(number), name != nullptr ? name : "") << number;
  }
#endif
  EXPECT_EQ(short_signal_name(SIGTERM), "TERM");
  EXPECT_EQ(short_signal_name(SIGXFSZ), "XFSZ");
}

}  // namespace
}  // namespace pergpu
