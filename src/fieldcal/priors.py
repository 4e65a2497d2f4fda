"""Prior information about prevalences: what ``estimate(prior=…)`` takes.

`Pooled` (the default) lets groups inform each other, `Smooth` neighbouring classes too; `Flat`, `KL`, `KLBins` and
`Continuity` are the paper's and the reference's; `Dirichlet` is the caller's own, and `Custom` any function. To write
another, subclass `Prior` and register it with `register`.
"""

from fieldcal.core.priors import (
    KL,
    Continuity,
    Custom,
    Dirichlet,
    Flat,
    KLBins,
    Pooled,
    Prior,
    Smooth,
    register,
)

__all__ = [
    "KL",
    "Continuity",
    "Custom",
    "Dirichlet",
    "Flat",
    "KLBins",
    "Pooled",
    "Prior",
    "Smooth",
    "register",
]
