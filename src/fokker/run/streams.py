"""How the key of a chain is divided: a key per step, and one for its batches."""

# The number that a chain's key is folded with for the stream of its batches; no step has it.
BATCHES = 2**32 - 1
