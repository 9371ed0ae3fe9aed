"""Wrong positions: modules that add them to tokens (B, T, D), and functions that make or stretch a table."""
