"""Training, independent of the model: the contract, units and waves, the reduction, the trainer."""
