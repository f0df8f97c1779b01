"""The model-agnostic engine. Read it in the order of the flow: family, params, rng, units, workers, merge, optim,
checkpoint, train. It imports no family."""
