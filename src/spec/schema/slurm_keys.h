// [slurm] of the file and `slurm` of a step: how an allocation of a cluster is asked for.
#pragma once

#include <vector>

#include "job/step.h"
#include "spec/schema/known_key.h"
#include "spec/tree/typed.h"

namespace pergpu {

std::vector<KnownKey> slurm_keys();

/// Reads a table over what `to` holds: each of its keys replaces that one, `extra` is added to.
void read_slurm(const Field& field, SlurmOptions& to);

/// { partition = "gpu", time = "12h" }: what read_slurm() reads back.
std::string slurm_text(const SlurmOptions& options);

}  // namespace pergpu
