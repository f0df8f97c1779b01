"""A family in a package of its own."""
