"""Torch: pairs from sorted cells, autograd through index_add."""
