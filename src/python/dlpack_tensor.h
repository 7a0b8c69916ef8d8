// The structures of dlpack.h 1.1, which tensors travel in.
#pragma once

#include <cstdint>

namespace pergpu::python {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  static constexpr const char* kName = "dltensor";

  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  static constexpr const char* kName = "dltensor_versioned";

  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

constexpr std::int32_t kCpu = 1;
constexpr std::uint64_t kReadOnly = 1;
constexpr std::uint64_t kIsCopied = 2;

}  // namespace pergpu::python
