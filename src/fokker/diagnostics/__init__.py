"""Diagnostics of a run: convergence by ArviZ, and checks for chains without a Metropolis step."""

from fokker.diagnostics._findings import Finding, Grade, Verdict
from fokker.diagnostics._summarise import summarise
from fokker.diagnostics.configurational import Spread, configurational_temperature, spread_of
from fokker.diagnostics.halving import StepHalving, step_halving
from fokker.diagnostics.monitor import Health, Monitor
from fokker.diagnostics.noise_share import gradient_noise_share
from fokker.diagnostics.stein import Stein, kernel_stein_discrepancy
from fokker.diagnostics.summary import Summary

__all__ = [
    "Finding",
    "Grade",
    "Health",
    "Monitor",
    "Spread",
    "Stein",
    "StepHalving",
    "Summary",
    "Verdict",
    "configurational_temperature",
    "gradient_noise_share",
    "kernel_stein_discrepancy",
    "spread_of",
    "step_halving",
    "summarise",
]
