// The thread variables are those of the libraries that start a thread per core where nothing says
// otherwise.  RANK and its family are a launcher's, and an inherited one makes a single process
// wait for peers that do not exist.
#include "run/environment.h"

#include <fnmatch.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "gpu/amd_uuid.h"
#include "job/gpu_parts.h"
#include "run/mps_names.h"

namespace pergpu {
namespace {

constexpr std::string_view kThreadVariables[] = {
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "TORCHINDUCTOR_COMPILE_THREADS",
};

constexpr std::string_view kLauncherVariables[] = {
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
};

// Decided per attempt: an inherited value would point a job at another job's GPU or folder.
constexpr std::string_view kOurs[] = {
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "NOTIFY_SOCKET",
};

template <std::size_t N>
bool is_one_of(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_dropped(std::string_view name) {
  return is_one_of(kLauncherVariables, name) || is_one_of(kOurs, name) ||
         name.starts_with("PERGPU_");
}

/// `WANDB_*` lets all of them in; a name without wildcards matches itself.
bool matches_one_of(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += ',';
    text += item;
  }
  return text;
}

/// "0,1,2"
std::string first_numbers(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::to_string(i);
  return text;
}

class Builder {
 public:
  void inherit(const std::string& entry) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return;
    place(entry.substr(0, equals), entry.substr(equals + 1));
  }
  bool has(const std::string& name) const { return index_.contains(name); }
  void set(const std::string& name, std::string value) {
    place(name, value);
    out_.set_by_us.emplace_back(name, std::move(value));
  }
  void set_if_unset(const std::string& name, std::string value) {
    if (!has(name)) set(name, std::move(value));
  }
  JobEnvironment take() {
    // The last one of a name wins, as in the environment itself.
    std::vector<std::pair<std::string, std::string>> unique;
    for (auto& entry : out_.set_by_us) {
      auto same = std::find_if(unique.begin(), unique.end(),
                               [&](const auto& u) { return u.first == entry.first; });
      if (same == unique.end()) {
        unique.push_back(std::move(entry));
      } else {
        same->second = std::move(entry.second);
      }
    }
    out_.set_by_us = std::move(unique);
    return std::move(out_);
  }

 private:
  void place(const std::string& name, const std::string& value) {
    auto [it, fresh] = index_.emplace(name, out_.all.size());
    if (fresh) {
      out_.all.push_back(name + "=" + value);
    } else {
      out_.all[it->second] = name + "=" + value;
    }
  }
  JobEnvironment out_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

std::span<const std::string_view> thread_variables() { return kThreadVariables; }

JobEnvironment build_environment(const EnvironmentRequest& r) {
  Builder b;
  for (const std::string& entry : *r.captured) {
    const std::string name = entry.substr(0, entry.find('='));
    if (is_dropped(name)) continue;
    if (r.env_pass && !matches_one_of(*r.env_pass, name)) continue;
    b.inherit(entry);
  }

  const std::string threads = std::to_string(r.cpus);
  for (std::string_view name : kThreadVariables) b.set_if_unset(std::string(name), threads);
  if (!r.cache_root.empty()) {
    b.set_if_unset("TORCHINDUCTOR_CACHE_DIR", r.cache_root + "/torchinductor");
    b.set_if_unset("TRITON_CACHE_DIR", r.cache_root + "/triton");
  }
  b.set_if_unset("PYTHONUNBUFFERED", "1");

  if (!r.gpus.empty()) {
    const bool is_amd = gpu::are_amd_uuids(r.gpus);
    // HIP numbers what the layer below it (ROCR) has left, and takes numbers only.
    b.set("CUDA_VISIBLE_DEVICES", is_amd ? first_numbers(r.gpus.size()) : joined(r.gpus));
    if (is_amd) b.set("HIP_VISIBLE_DEVICES", first_numbers(r.gpus.size()));
    b.set("ROCR_VISIBLE_DEVICES", joined(r.gpus));
    b.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    b.set("PERGPU_NUM_GPUS", std::to_string(r.gpus.size()));
    if (r.gpu_share > 0) {
      b.set("PERGPU_GPU_SHARE", share_text(r.gpu_share));
      // Else these take most of the GPU's memory when they start.
      b.set_if_unset("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
      b.set_if_unset("TF_FORCE_GPU_ALLOW_GROWTH", "true");
    }
    if (r.mps) {
      b.set(kMpsPipeName, r.mps->folder);
      b.set(kMpsLogName, r.mps->folder);
      if (r.mps->percent > 0) {
        b.set_if_unset("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(r.mps->percent));
      }
      if (r.mps->memory_bytes > 0) {
        // Of its first GPU, and it has one.
        b.set_if_unset("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                       "0=" + std::to_string(r.mps->memory_bytes >> 20) + "M");
      }
    }
    if (r.port > 0) {
      b.set("MASTER_ADDR", "127.0.0.1");
      b.set("MASTER_PORT", std::to_string(r.port));
    }
  } else if (r.hide_gpus) {
    b.set("CUDA_VISIBLE_DEVICES", "");
    b.set("ROCR_VISIBLE_DEVICES", "");
  }

  b.set("PERGPU_JOB", std::to_string(r.attempt.job.value));
  b.set("PERGPU_ATTEMPT", std::to_string(r.attempt.number));
  b.set("PERGPU_SWEEP", r.sweep);
  b.set("PERGPU_STEP", r.step);
  if (!r.run.empty()) b.set("PERGPU_RUN", r.run);
  if (!r.config.empty()) b.set("PERGPU_CONFIG", r.config);
  b.set("PERGPU_OUT", r.out);
  b.set("PERGPU_METRICS", r.metrics);
  if (!r.signal.empty()) b.set("PERGPU_SIGNAL", r.signal);
  if (!r.share.empty()) b.set("PERGPU_SHARE", r.share);
  if (!r.home.empty()) b.set("PERGPU_HOME", r.home);
  b.set("PERGPU_ATTEMPT_ID", r.marker);
  for (const auto& [name, value] : r.parameters) b.set(name, value);
  for (const auto& [name, value] : r.step_env) b.set(name, value);
  return b.take();
}

std::vector<std::string> entries_of(std::string_view captured) {
  std::vector<std::string> out;
  while (!captured.empty()) {
    const std::size_t end = std::min(captured.find('\0'), captured.size());
    out.emplace_back(captured.substr(0, end));
    captured.remove_prefix(std::min(end + 1, captured.size()));
  }
  return out;
}

}  // namespace pergpu
