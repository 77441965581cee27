"""Random sequences of moves, compared with simple models of what they should do."""
