"""Several processes that share one run: shares of a batch, exchange of tree nodes, shared memory, torchrun."""
