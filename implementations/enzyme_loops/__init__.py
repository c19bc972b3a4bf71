"""The whole pipeline as plain C++ loops, differentiated by Enzyme."""
