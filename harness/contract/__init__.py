"""What all agree on: the problem, the protocol of a row, records, the registry. Imports no framework."""
