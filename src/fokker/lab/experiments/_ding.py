"""The thermostat as Ding et al. (2014) have it: dξ = (rᵀr/n - 1) dt, whose mass is 1 whatever the step."""

import functools

from fokker import samplers

SGNHT = functools.partial(samplers.sgnht, thermostat_mass=1.0)
