"""GPUs: one kernel source for CUDA and OpenCL, with the bits of the CPU."""
