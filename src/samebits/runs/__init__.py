"""Run folders: config file, checkpoints, metrics table, lock, and the loop that trains a run."""
