r"""Samplers at work, in one visual language.

The target's density is light grey; the path blue, fading behind a filled point; the sample small dots that
stay; a proposal that was rejected a vermilion cross with a dotted line to it; a trajectory of leapfrog steps
open circles, a tree's coloured and shaped by its doublings, the chosen point a star. Beside it the histogram
of every coordinate grows onto the exact marginal; below are the sampler's other numbers: thermostat,
kinetic temperature, acceptance.
"""

from fokker.lab.animation._animate import animate, times
from fokker.lab.animation._chain_view import Backdrop, ChainView, Series, Trajectory
from fokker.lab.animation._frames import Frame, Stage, ffmpeg, write_animations, write_gif, write_mp4
from fokker.lab.animation._renderers import Job, Renderers
from fokker.lab.animation._scene import DPI, HEIGHT, WIDTH, draw_backdrop

__all__ = [
    "DPI",
    "HEIGHT",
    "WIDTH",
    "Backdrop",
    "ChainView",
    "Frame",
    "Job",
    "Renderers",
    "Series",
    "Stage",
    "Trajectory",
    "animate",
    "draw_backdrop",
    "ffmpeg",
    "times",
    "write_animations",
    "write_gif",
    "write_mp4",
]
