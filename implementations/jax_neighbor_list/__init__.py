"""The study's JAX row: a padded pair list of jax-md, differentiated by JAX."""
