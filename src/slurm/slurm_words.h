// Slurm's states and reasons in plain words.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace pergpu::slurm {

/// What the programs mean that find no slurm.conf: there is no controller that could respond.
inline constexpr std::string_view kNoConfiguration =
    "this machine has no Slurm configuration (slurm.conf or SLURM_CONF)";
/// Starts with kNoConfiguration, then has the line that says so; "": `complaint` says another
/// thing.
std::string no_configuration(std::string_view complaint);

/// Why a job is pending: "waits for free resources of the cluster".
std::string reason_words(std::string_view reason);
/// "runs", "its node failed", …
std::string state_words(std::string_view state);

}  // namespace pergpu::slurm
