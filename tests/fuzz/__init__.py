"""Inputs that nobody meant to give: every one must end well, or in one message that says what is wrong with it.

A kind of input is a name and a function (kinds.py); an input is a kind and a seed, nothing else, so `python -m
tests.fuzz --once KIND:SEED` does again what a run of minutes did. A parent starts a child a core (parent.py, child.py):
it alone can tell of a child that crashed or hangs, and goes on with another one.
"""
