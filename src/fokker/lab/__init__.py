"""The papers' experiments, and animations of chains at work."""
