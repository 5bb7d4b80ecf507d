r"""Samplers at work, in one visual language.

The target's density is light grey; the path blue, fading behind a filled point; the sample small dots that
stay; a proposal that was rejected a vermilion cross with a dotted line to it; a trajectory of leapfrog steps
open circles, a tree's coloured and shaped by its doublings, the chosen point a star. Beside it the histogram
of every coordinate grows onto the exact marginal; below run what the sampler has besides: thermostat,
kinetic temperature, acceptance.
"""

import numpy as np

from fokker.lab.animation._film import Frame, Stage, ffmpeg, write_films, write_gif, write_mp4
from fokker.lab.animation._painters import Job, Painters
from fokker.lab.animation._scene import DPI, HEIGHT, WIDTH, Scene, draw_backdrop
from fokker.lab.animation._walk import Backdrop, Series, Trajectory, Walk

__all__ = [
    "DPI",
    "HEIGHT",
    "WIDTH",
    "Backdrop",
    "Frame",
    "Job",
    "Painters",
    "Series",
    "Stage",
    "Trajectory",
    "Walk",
    "animate",
    "draw_backdrop",
    "ffmpeg",
    "times",
    "write_films",
    "write_gif",
    "write_mp4",
]

# Pictures of one trajectory at most, and of one that is longer at least.
_OF_A_TRAJECTORY, _FEWEST = 17, 6


def times(steps: int, frames: int) -> np.ndarray:
    """How many steps are done at every frame: one by one at first, then faster and faster."""
    if frames >= steps:
        return np.arange(1, steps + 1)
    # Equal factors from where they exceed one step a frame.
    slow = max(1, frames // 3)
    fast = np.geomspace(slow, steps, frames - slow + 1)[1:]
    return np.concatenate([np.arange(1, slow + 1), np.maximum(np.round(fast), np.arange(1, len(fast) + 1))])


def animate(backdrop: Backdrop, walk: Walk, frames: int, share: float = 0.5) -> list[Frame]:
    """`frames` pictures of a chain at work; up to a `share` of them show its trajectories, if it has any."""
    scene = Scene(backdrop, walk)
    told: list[Frame] = []
    room = int(share * frames)
    for trajectory in walk.trajectories:
        shown = min(len(trajectory.points) + 1, _OF_A_TRAJECTORY, room - len(told))
        if shown < min(len(trajectory.points) + 1, _FEWEST):
            break
        told += scene.trajectory_frames(trajectory, shown)
    scene.hide_trajectory()
    return told + [scene.at(int(n)) for n in times(len(walk.positions), frames - len(told))]
