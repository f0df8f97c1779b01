"""Compiling kernels: the JIT decorators, the cache of compiled code, and processes that compile in parallel."""
