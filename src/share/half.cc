// The instructions (F16C) are not in every x86-64, so functions that use them are compiled for such
// a processor and called where it is one.
#include "share/half.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "os/test_hooks.h"
#include "share/transform.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace pergpu::share {
namespace {

/// All bits at once and no branch, so that a compiler does several numbers in one instruction.
float number_of(std::uint16_t half) {
  std::uint32_t magnitude = (half & 0x7FFFu) << 13;
  std::uint32_t exponent = magnitude & 0x0F800000u;
  std::uint32_t normal = magnitude + (112u << 23);
  std::uint32_t infinite = magnitude | 0x7F800000u;
  // A subnormal number is its bits times 2^-24: as the end of 2^-14, taken off again.
  float subnormal = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  std::uint32_t bits = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  bits = exponent == 0x0F800000u ? infinite : bits;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

void add_by_bits(const std::byte* from, float weight, std::size_t count, float* sums, bool first) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, 2);
    float part = weight * number_of(half);
    sums[i] = first ? part : sums[i] + part;
  }
}

void divide_by_bits(const float* from, float divisor, std::size_t count, std::byte* into) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = half_of(from[i] / divisor);
    std::memcpy(into + 2 * i, &half, 2);
  }
}

#ifdef __x86_64__
bool asked_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool has = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  return has && __builtin_cpu_supports("avx") != 0;  // which the kernel must keep, too
}

bool has_instructions() {
  static const bool has = asked_processor();
  return has && !os::test_hook::no_half_instructions.load(std::memory_order_relaxed);
}

/// How many it has done: a multiple of eight.
__attribute__((target("avx,f16c"))) std::size_t add_by_eight(const std::byte* from, float weight,
                                                             std::size_t count, float* sums,
                                                             bool first) {
  const __m256 weights = _mm256_set1_ps(weight);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
    __m256 part = _mm256_mul_ps(weights, _mm256_cvtph_ps(halves));
    if (!first) part = _mm256_add_ps(_mm256_loadu_ps(sums + i), part);
    _mm256_storeu_ps(sums + i, part);
  }
  return i;
}

__attribute__((target("avx,f16c"))) std::size_t divide_by_eight(const float* from, float divisor,
                                                                std::size_t count,
                                                                std::byte* into) {
  const __m256 divisors = _mm256_set1_ps(divisor);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 value = _mm256_div_ps(_mm256_loadu_ps(from + i), divisors);
    __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into + 2 * i), halves);
  }
  return i;
}
#else
bool has_instructions() { return false; }
std::size_t add_by_eight(const std::byte*, float, std::size_t, float*, bool) { return 0; }
std::size_t divide_by_eight(const float*, float, std::size_t, std::byte*) { return 0; }
#endif

}  // namespace

void add_halves(const std::byte* from, float weight, std::size_t count, float* sums, bool first) {
  std::size_t done = has_instructions() ? add_by_eight(from, weight, count, sums, first) : 0;
  add_by_bits(from + 2 * done, weight, count - done, sums + done, first);
}

void divide_to_halves(const float* from, float divisor, std::size_t count, std::byte* into) {
  std::size_t done = has_instructions() ? divide_by_eight(from, divisor, count, into) : 0;
  divide_by_bits(from + done, divisor, count - done, into + 2 * done);
}

}  // namespace pergpu::share
