"""Integrators: one step of time for given dynamics, pure in the noise."""

from fokker.integrators.euler_maruyama import EulerMaruyama

__all__ = ["EulerMaruyama"]
