"""The whole pipeline as plain C++ loops, differentiated by Enzyme, the outer loop shared among threads."""
