// Two functions of the runtime API, of which no version has changed: cudaHostRegister and
// cudaHostUnregister.  A library that was found is never closed again: torch uses it.
#include "share/pinning.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "os/test_hooks.h"

namespace pergpu::share {
namespace {

constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: for the contexts of all GPUs

struct Runtime {
  int (*register_host)(void*, std::size_t, unsigned) = nullptr;
  int (*unregister_host)(void*) = nullptr;
  const char* (*words)(int) = nullptr;
};

/// Paths of the CUDA runtimes that this process has loaded: wheels name theirs as they like.
std::vector<std::string> loaded() {
  std::vector<std::string> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        if (path.find("libcudart") != std::string::npos) {
          static_cast<std::vector<std::string>*>(list)->push_back(path);
        }
        return 0;
      },
      &found);
  return found;
}

std::vector<std::string> candidates() {
  const char* chosen = os::test_hook::kCudart.value();
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> names = loaded();
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                           "libcudart.so", "/usr/local/cuda/lib64/libcudart.so"}) {
    names.emplace_back(name);
  }
  return names;
}

Result<Runtime> find_runtime() {
  std::string tried;
  for (const std::string& name : candidates()) {
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += (tried.empty() ? "" : ", ") + name;
      continue;
    }
    Runtime runtime;
    auto resolve = [library](const char* symbol, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, symbol));
      return function != nullptr;
    };
    if (resolve("cudaHostRegister", runtime.register_host) &&
        resolve("cudaHostUnregister", runtime.unregister_host) &&
        resolve("cudaGetErrorString", runtime.words)) {
      return runtime;
    }
    tried += (tried.empty() ? "" : ", ") + name + " (which lacks cudaHostRegister)";
  }
  return Error{ErrorKind::NotFound, 0,
               "pin memory: can't find a CUDA runtime (tried " + tried +
                   "): import torch first, or set PERGPU_CUDART to its path"};
}

}  // namespace

Result<Pinned> Pinned::pin(std::byte* data, std::size_t size) {
  Result<Runtime> runtime = find_runtime();
  if (!runtime) return std::move(runtime).error();
  if (int why = runtime->register_host(data, size, kPortable); why != 0) {
    const char* words = runtime->words(why);
    return Error{ErrorKind::Unavailable, 0,
                 "pin " + std::to_string(size) + " bytes: CUDA says \"" +
                     (words != nullptr ? words : "nothing") + "\" (" + std::to_string(why) + ")"};
  }
  return Pinned(data, runtime->unregister_host, ::getpid());
}

Pinned::Pinned(Pinned&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      unregister_(other.unregister_),
      pid_(other.pid_) {}

Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(unregister_, other.unregister_);
  std::swap(pid_, other.pid_);
  return *this;
}

Pinned::~Pinned() {
  if (data_ != nullptr && pid_ == ::getpid()) unregister_(data_);
}

}  // namespace pergpu::share
