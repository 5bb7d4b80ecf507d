"""The foundation of all other parts: states as trees, counters, random numbers, rounding."""
