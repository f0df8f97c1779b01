"""Simulation of a learned circuit, many cells in one machine word."""
