"""What everything stands on: states as trees, counters, random numbers, rounding."""
