"""The padded cell list, differentiated by Enzyme's MLIR passes: the route Reactant.jl takes."""
