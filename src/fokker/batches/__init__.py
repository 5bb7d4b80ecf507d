"""Minibatches: the rows of the data that a step uses.

They are functions of a key and of the position in the stream of steps, so that a run can stop, resume and be
split into chunks without any change in its batches.
"""

from fokker.batches._blocks import BlockBatches, StreamBatches
from fokker.batches._permutation import permuted
from fokker.batches._scheme import Batch, Scheme
from fokker.batches._uniform import KINDS, NAMES, Batches
from fokker.batches._weighted import WeightedBatches
from fokker.batches._windows import WINDOWS, WindowBatches

BatchScheme = Batches | BlockBatches | StreamBatches | WeightedBatches | WindowBatches

__all__ = [
    "KINDS",
    "NAMES",
    "WINDOWS",
    "Batch",
    "BatchScheme",
    "Batches",
    "BlockBatches",
    "Scheme",
    "StreamBatches",
    "WeightedBatches",
    "WindowBatches",
    "permuted",
]
