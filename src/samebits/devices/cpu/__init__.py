"""The CPU: worker pool, dispatch, floating-point modes, scratch memory, the fixed tree and the optimizer."""
