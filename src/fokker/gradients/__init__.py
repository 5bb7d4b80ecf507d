"""Estimators of ∇U from a minibatch, interchangeable under every sampler."""

from fokker.gradients.control_variates import ControlVariates, control_variates
from fokker.gradients.minibatch import Estimator, minibatch
from fokker.gradients.noise import OnlineNoise
from fokker.gradients.norms import norms
from fokker.gradients.saga import saga
from fokker.gradients.svrg import svrg

__all__ = [
    "ControlVariates",
    "Estimator",
    "OnlineNoise",
    "control_variates",
    "minibatch",
    "norms",
    "saga",
    "svrg",
]
