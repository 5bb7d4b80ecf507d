"""Chains that were stopped, because they diverged, while the others went on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree


class Loss(NamedTuple):
    """How a chain ended: the draws it has made, the step of the first that is not sound, and why."""

    draws: int
    step: int
    reason: str


def first_unsound(sound: np.ndarray) -> int:
    """The number of draws before the first that is not sound."""
    return len(sound) if sound.all() else int(np.argmin(sound))


def left_of(chains: int, losses: Mapping[int, Loss]) -> list[int]:
    """The chains that results are of: those that went on to the end, or all if none did."""
    return [chain for chain in range(chains) if chain not in losses] or list(range(chains))


def surviving(record: PyTree[Any], losses: Mapping[int, Loss]) -> PyTree[Any]:
    """The draws, chain × draw × …, of the chains that were not stopped.

    If all were, those of all chains before the first of them was stopped.
    """
    leaves = jax.tree.leaves(record)
    if not losses or not leaves:
        return record
    chains = leaves[0].shape[0]
    if len(losses) == chains:
        return jax.tree.map(lambda x: x[:, : draws_before_end(losses)], record)
    left = left_of(chains, losses)
    return jax.tree.map(lambda x: x[left], record)


def draws_before_end(losses: Mapping[int, Loss]) -> int:
    """The draws that all chains made before the first was stopped."""
    return min(loss.draws for loss in losses.values())


def blanked(draws: np.ndarray, sound: np.ndarray) -> np.ndarray:
    """NaN in the place of numbers, chain × draw × …, that are not sound; whole numbers stay as they are."""
    if sound.all() or not np.issubdtype(draws.dtype, np.floating):
        return draws
    return np.where(sound.reshape(*sound.shape, *[1] * (draws.ndim - 2)), draws, draws.dtype.type(np.nan))


# Chains that are named one by one; of more it is said how many they are.
_NAMED = 8


def in_words(chains: int, losses: Mapping[int, Loss]) -> str:
    """One sentence about the chains that were stopped; empty if none or all were. It counts from 1."""
    if not 0 < len(losses) < chains:
        return ""
    first = min(losses.values(), key=lambda loss: loss.step)
    was = "was stopped" if len(losses) == 1 else "were stopped, the first"
    return (
        f"{_names(sorted(losses))} of {chains} {was} at step {first.step:,} ({first.reason}); the summary is "
        f"of {_names(left_of(chains, losses))}"
    )


def _names(chains: list[int]) -> str:
    if len(chains) > _NAMED:
        return f"{len(chains)} chains"
    return f"chain{'' if len(chains) == 1 else 's'} {', '.join(str(chain + 1) for chain in chains)}"
