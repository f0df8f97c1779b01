"""The kernels of logic automata for GPUs."""
