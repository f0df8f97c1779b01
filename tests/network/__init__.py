"""Machines that are not there: network namespaces, and a switch between them that is slow and can be cut. For root."""
