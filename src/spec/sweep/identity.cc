// Layout, version 1: the tag "pergpu-job-1", then the fields in the order below.  A text is its
// length in bytes (8 bytes, little-endian) and its bytes; a list is its count and its elements.  So
// no two different jobs can have the same input by mere concatenation.
#include "spec/sweep/identity.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

namespace pergpu {
namespace {

class Hasher {
 public:
  explicit Hasher(std::string_view tag) {
    XXH3_128bits_reset(&state_);
    text(tag);
  }
  void number(std::uint64_t n) {
    unsigned char bytes[8];
    for (unsigned char& b : bytes) {
      b = static_cast<unsigned char>(n & 0xFFU);
      n >>= 8;
    }
    XXH3_128bits_update(&state_, bytes, sizeof bytes);
  }
  void text(std::string_view t) {
    number(t.size());
    XXH3_128bits_update(&state_, t.data(), t.size());
  }
  void id(const JobIdentity& i) { XXH3_128bits_update(&state_, i.data(), i.size()); }
  void ids(std::vector<JobIdentity>& list) {
    std::sort(list.begin(), list.end());
    number(list.size());
    for (const JobIdentity& i : list) id(i);
  }
  JobIdentity finish() const {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(&state_));
    JobIdentity out;
    std::copy(std::begin(bytes.digest), std::end(bytes.digest), out.begin());
    return out;
  }

 private:
  XXH3_state_t state_;
};

}  // namespace

JobIdentity job_identity(const StepSpec& step, const RunSpec* run, std::vector<JobIdentity> needs,
                         const JobIdentity* all_runs) {
  Hasher h("pergpu-job-1");
  h.number(run != nullptr ? 1 : 0);
  if (run != nullptr) h.text(run->json);
  h.text(step.name);
  h.number(step.command.size());
  for (const Template& t : step.command) h.text(t);
  h.text(step.shell);
  h.text(step.cwd);
  h.number(step.env.size());
  for (const auto& [name, value] : step.env) {
    h.text(name);
    h.text(value);
  }
  h.number(step.outputs.size());
  for (const Template& t : step.outputs) h.text(t);
  h.ids(needs);
  h.number(all_runs != nullptr ? 1 : 0);
  if (all_runs != nullptr) h.id(*all_runs);
  return h.finish();
}

JobIdentity combined_identity(std::vector<JobIdentity> jobs) {
  Hasher h("pergpu-jobs-1");
  h.ids(jobs);
  return h.finish();
}

JobIdentity identity_of_runs(const std::vector<RunSpec>& runs) {
  Hasher h("pergpu-runs-1");
  h.number(runs.size());
  for (const RunSpec& run : runs) h.text(run.json);
  return h.finish();
}

}  // namespace pergpu
