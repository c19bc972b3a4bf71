"""What rows in C++ through enzyme-ad share: the row itself, the call from JAX, and the headers of their sources."""
