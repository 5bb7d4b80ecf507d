"""Posteriors over the weights of neural networks."""
