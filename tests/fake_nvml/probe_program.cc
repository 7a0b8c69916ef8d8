// `pergpu probe` as a program of its own, for tests of gpu/ that have no pergpu.
#include <unistd.h>

#include "gpu/probe_main.h"

int main() { return pergpu::gpu::probe_main(STDIN_FILENO, STDOUT_FILENO); }
