// Keys that say how an attempt is watched and what follows when it had too little: `signal`,
// `stall`, `grow`.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "job/step.h"
#include "spec/schema/known_key.h"
#include "spec/tree/typed.h"

namespace pergpu {

/// Of `stall = true`: longer than the watchdogs of frameworks (10 min of NCCL, 30 min of gloo and
/// torch.distributed's store), which say more about what hangs.
constexpr std::chrono::minutes kUsualStall{45};

/// "USR1@120s".  nullopt: it is not that (reported), as with all functions here.
std::optional<EarlySignal> read_early_signal(const Field& field);
/// What read_early_signal() reads back.
std::string signal_text(const EarlySignal& signal);

/// A duration that is not zero.
std::optional<std::chrono::milliseconds> read_limit_of_time(const Field& field);

/// A duration that is not zero, or `true`; `false` gives an empty inner value.
std::optional<std::optional<std::chrono::milliseconds>> read_stall(const Field& field);

std::vector<KnownKey> growth_keys();
/// { memory = 1.5, gpu_memory = 2 }
std::optional<Growth> read_growth(const Field& field);

}  // namespace pergpu
