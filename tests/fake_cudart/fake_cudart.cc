// What pinning.cc asks of the CUDA runtime.  Beside it fake_cudart_pinned(): how many bytes are
// pinned now.  With FAKE_CUDART_ERROR=N in the environment every registration fails with N.
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>

namespace {

std::mutex lock;
std::map<void*, std::size_t> pinned;

constexpr int kInvalidValue = 1;
constexpr int kAlreadyRegistered = 712;
constexpr int kNotRegistered = 713;

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cudaHostRegister(void* data, std::size_t size, unsigned) {
  const char* error = std::getenv("FAKE_CUDART_ERROR");
  if (error != nullptr) return std::atoi(error);
  std::lock_guard guard(lock);
  if (data == nullptr || size == 0) return kInvalidValue;
  return pinned.emplace(data, size).second ? 0 : kAlreadyRegistered;
}

EXPORTED int cudaHostUnregister(void* data) {
  std::lock_guard guard(lock);
  return pinned.erase(data) == 1 ? 0 : kNotRegistered;
}

EXPORTED const char* cudaGetErrorString(int error) {
  return error == 100 ? "no CUDA-capable device is detected" : "an error of the fake";
}

EXPORTED std::size_t fake_cudart_pinned() {
  std::lock_guard guard(lock);
  std::size_t sum = 0;
  for (auto& [data, size] : pinned) sum += size;
  return sum;
}
