// Slurm's states and reasons in plain words.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace pergpu::slurm {

/// Why a job is pending: "waits for free resources of the cluster".
std::string reason_words(std::string_view reason);
/// "runs", "its node failed", …
std::string state_words(std::string_view state);

}  // namespace pergpu::slurm
