"""Checks that can be run by anyone: the same bits for any worker count, and right gradients."""
