"""Small GPTs: decoder-only transformers over characters or byte pairs."""
