"""Machines that are not there: network namespaces, and a switch between them with a rate, a delay and a cut (Linux, root)."""
