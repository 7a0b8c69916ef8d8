// What becomes of a row on its way into a batch: nothing, another type, or an image that is
// cropped, turned round and normalized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "result.h"

namespace pergpu::share {

enum class Type { UInt8, Float32, Float16, BFloat16 };

std::size_t size_of(Type type);

/// Images of `height` × `width` × `channels` bytes become arrays of channels × rows × columns.
struct ImageTransform {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
  std::uint32_t crop_height = 0;  // of the result; 0: as the image
  std::uint32_t crop_width = 0;
  std::uint32_t padding = 0;  // zero pixels that are thought around the image before it is cropped
  bool random_crop = false;   // anywhere; else from the middle
  bool random_flip = false;   // left and right are exchanged in half of the images
  std::vector<float> mean = {};       // of a channel, in units of the result; empty: 0
  std::vector<float> deviation = {};  // empty: 1
  float scale = 1.0f / 255.0f;        // of a byte, before the mean is taken off
  Type type = Type::Float32;          // UInt8: neither scaled nor normalized

  std::uint32_t rows() const { return crop_height != 0 ? crop_height : height; }
  std::uint32_t columns() const { return crop_width != 0 ? crop_width : width; }
  std::size_t in_bytes() const { return std::size_t{height} * width * channels; }
  std::size_t out_bytes() const {
    return std::size_t{rows()} * columns() * channels * size_of(type);
  }
};

class ImageKernel {
 public:
  /// ErrorKind::Invalid: the sizes do not fit each other.
  static Result<ImageKernel> make(ImageTransform transform);

  const ImageTransform& transform() const { return transform_; }

  /// One image.  `chance`: 64 random bits; equal ones give equal results.  Any thread may.
  /// REQUIRES: `from` has in_bytes(), `into` out_bytes(), aligned for the type.
  void apply(const std::byte* from, std::byte* into, std::uint64_t chance) const;

 private:
  explicit ImageKernel(ImageTransform transform) : transform_(std::move(transform)) {}

  ImageTransform transform_;
  std::vector<std::uint32_t> tables_ = {};  // of each channel: what a byte becomes, as bits
};

// IEEE 754 half precision and bfloat16, rounded to nearest, ties to even.
std::uint16_t half_of(float value);
std::uint16_t bfloat16_of(float value);

}  // namespace pergpu::share
