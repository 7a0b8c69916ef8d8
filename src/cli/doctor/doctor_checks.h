// What follows from the facts: each check is a pure function that gives findings, none where it has
// nothing to say.  docs/doctor.md is the table of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/doctor/doctor_facts.h"
#include "view/commands/doctor.h"

namespace pergpu::cli {

inline constexpr std::uint64_t kMiB = 1024 * 1024;

using Findings = std::vector<view::Finding>;

struct Check {
  const char* name = "";
  Findings (*examine)(const DoctorFacts& facts) = nullptr;
};

// In the order in which people read them.
std::span<const Check> gpu_checks();
std::span<const Check> machine_checks();
std::span<const Check> own_checks();

/// All of them, each finding with its check's name.
Findings examine(const DoctorFacts& facts);

/// "21.3 GiB"
std::string bytes_text(std::uint64_t bytes);

}  // namespace pergpu::cli
