"""One folder per implementation; each is readable alone."""
