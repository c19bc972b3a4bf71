"""Density pass and gather pass in C++; Enzyme differentiates only the scalar kernel W(r)."""
