"""Logic cellular automata: grids whose cells learn a circuit of soft logic gates."""
