"""Running: the plan of a run, where its chains start, the compiled block of steps, the loop over blocks."""
