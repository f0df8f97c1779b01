"""Measuring: where the time of a step goes, how it scales with workers, and JSON records of both."""
