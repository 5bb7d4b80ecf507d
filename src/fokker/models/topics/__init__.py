"""Latent Dirichlet allocation by stochastic-gradient MCMC, over streams of documents."""
