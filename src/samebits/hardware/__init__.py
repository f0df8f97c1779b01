"""A learned cell as hardware: written in several formats, read back, proved, placed and routed. Knows no family."""
