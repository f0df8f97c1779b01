"""The learned circuit: extraction, pruning, minimisation, proof, repair and export."""
