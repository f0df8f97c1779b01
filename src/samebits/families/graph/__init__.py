"""Graph-to-graph networks: expressions rewritten step by step by learned edits."""
