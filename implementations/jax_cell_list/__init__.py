"""The padded cell list, differentiated by JAX."""
