// The script of an array of tasks as sbatch reads it.  Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/step.h"

namespace pergpu::slurm {

struct ArrayRequest {
  std::string name = {};     // for people
  std::string comment = {};  // one word: found again by it
  std::string folder = {};   // absolute, for what the tasks say
  std::string cwd = {};
  std::vector<std::string> command = {};  // what a task executes, as is
  std::vector<int> tasks = {};            // indices, ascending
  int most_at_once = 0;                   // 0: no limit
  // Of a whole allocation; 0: not given.
  int gpus = 0;
  std::string gpu = {};  // model
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
  std::optional<std::chrono::milliseconds> time = std::nullopt;
  std::string dependency = {};
  bool requeue = true;  // after a fault of its node, by Slurm
  int nice = 0;
  int warning_s = 0;  // SIGUSR2 this long before the time limit; 0: never
  SlurmOptions options = {};
};

std::string script_text(const ArrayRequest& request);

/// Whether Slurm could call GPUs so.
bool is_gpu_type(std::string_view text);
/// "--gres=gpu:a100:2"; "--gres=gpu:2" where `type` is none.
std::string gres_option(const std::string& type, int gpus);
/// A path where Slurm replaces %x.
std::string file_name_option(std::string_view path);

}  // namespace pergpu::slurm
