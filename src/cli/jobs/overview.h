// `pergpu` alone: what is going on, in a few lines.
#pragma once

namespace pergpu::cli {

/// Asks a running coordinator only; starts none.
int overview();

}  // namespace pergpu::cli
