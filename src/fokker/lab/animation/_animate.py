"""The pictures of an animation: a chain at work, step by step at first, then faster."""

import numpy as np

from fokker.lab.animation._chain_view import Backdrop, ChainView
from fokker.lab.animation._frames import Frame
from fokker.lab.animation._scene import Scene

# The most pictures of one trajectory, and the fewest of a longer one.
_OF_A_TRAJECTORY, _FEWEST = 17, 6


def times(steps: int, frames: int) -> np.ndarray:
    """The number of steps done at every frame: one by one at first, then faster and faster."""
    if frames >= steps:
        return np.arange(1, steps + 1)
    # Then by equal factors, once these exceed one step per frame.
    slow = max(1, frames // 3)
    fast = np.geomspace(slow, steps, frames - slow + 1)[1:]
    return np.concatenate([np.arange(1, slow + 1), np.maximum(np.round(fast), np.arange(1, len(fast) + 1))])


def animate(backdrop: Backdrop, chain: ChainView, frames: int, share: float = 0.5) -> list[Frame]:
    """`frames` pictures of a chain at work; up to a `share` of them show its trajectories, if it has any."""
    scene = Scene(backdrop, chain)
    pictures: list[Frame] = []
    room = int(share * frames)
    for trajectory in chain.trajectories:
        shown = min(len(trajectory.points) + 1, _OF_A_TRAJECTORY, room - len(pictures))
        if shown < min(len(trajectory.points) + 1, _FEWEST):
            break
        pictures += scene.trajectory_frames(trajectory, shown)
    scene.hide_trajectory()
    return pictures + [scene.at(int(n)) for n in times(len(chain.positions), frames - len(pictures))]
