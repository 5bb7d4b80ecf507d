"""Bayesian probabilistic matrix factorisation of ratings."""
