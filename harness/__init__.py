"""The benchmark harness: everything that is the same for all implementations. Imports no framework."""
