"""How predictions are cut into bins: what ``learn(partition=…)`` takes.

`Quantiles` (the default for two classes), `Edges` and `Expected` cut scores; `Simplex` (the default for more classes)
cuts regions of several probabilities; `Bins` takes ids that the caller has computed, `Values` categories. To write
another, subclass `Partition` and register it with `register_partition`.
"""

from fieldcal.core.partition import (
    Bins,
    Edges,
    Expected,
    Partition,
    Quantiles,
    Simplex,
    register_partition,
)
from fieldcal.core.values import Values

__all__ = [
    "Bins",
    "Edges",
    "Expected",
    "Partition",
    "Quantiles",
    "Simplex",
    "Values",
    "register_partition",
]
