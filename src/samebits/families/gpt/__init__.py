"""A small GPT: characters or BPE tokens, trained, evaluated, sampled."""
