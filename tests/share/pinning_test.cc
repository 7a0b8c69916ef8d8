// Pages are pinned by the CUDA runtime that is there, and let go.
#include "share/pinning.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace pergpu::share {
namespace {

const std::string kFake = std::string(PERGPU_BINARY_DIR) + "/fake_cudart/libcudart.so.12";

class Pinning : public ::testing::Test {
 protected:
  Pinning() { ::setenv("PERGPU_CUDART", kFake.c_str(), 1); }
  ~Pinning() override {
    ::unsetenv("PERGPU_CUDART");
    ::unsetenv("FAKE_CUDART_ERROR");
  }
  static std::size_t pinned() {
    void* library = ::dlopen(kFake.c_str(), RTLD_NOW);
    return reinterpret_cast<std::size_t (*)()>(::dlsym(library, "fake_cudart_pinned"))();
  }
  std::vector<std::byte> memory_ = std::vector<std::byte>(8192);
};

TEST_F(Pinning, LastsAsLongAsTheObject) {
  {
    Result<Pinned> first = Pinned::pin(memory_.data(), 4096);
    ASSERT_TRUE(first) << first.error().message;
    Pinned moved = std::move(*first);
    Pinned second = std::move(*Pinned::pin(memory_.data() + 4096, 4096));
    EXPECT_EQ(pinned(), 8192U);
    second = Pinned();
    EXPECT_EQ(pinned(), 4096U);
  }
  EXPECT_EQ(pinned(), 0U);
}

TEST_F(Pinning, IsNotUndoneByAForkedChild) {
  Result<Pinned> made = Pinned::pin(memory_.data(), memory_.size());
  ASSERT_TRUE(made);
  pid_t child = ::fork();
  if (child == 0) {
    *made = Pinned();
    ::_exit(pinned() == memory_.size() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Pinning, WhatCudaRefusesIsToldInItsWords) {
  ::setenv("FAKE_CUDART_ERROR", "100", 1);
  Result<Pinned> made = Pinned::pin(memory_.data(), memory_.size());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::Unavailable);
  EXPECT_NE(made.error().message.find("8192 bytes: CUDA says \"no CUDA-capable device"),
            std::string::npos)
      << made.error().message;
  EXPECT_EQ(pinned(), 0U);
}

TEST_F(Pinning, WithoutARuntimeTheErrorSaysWhatWasTried) {
  for (const char* library : {"/nowhere/libcudart.so", "libm.so.6"}) {
    ::setenv("PERGPU_CUDART", library, 1);
    Result<Pinned> made = Pinned::pin(memory_.data(), memory_.size());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::NotFound);
    EXPECT_NE(made.error().message.find(library), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace pergpu::share
