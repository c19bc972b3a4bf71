"""The padded pair list of jax-md, summed by a Warp kernel of `segment_ops`."""
