"""What rows in JAX share: the row itself, and the box, W, cells and pair list in traceable functions."""
