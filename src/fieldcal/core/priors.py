"""L_reg: what is believed about the prevalences before the field is seen. A prior is one class here, or anywhere.

A `Prior` needs a name and `penalty(problem)`; the posterior follows from it, with uniform prevalences times
``exp(−L_reg)``. Priors add up: ``KL(10) + Continuity(5)`` is the paper's combined L_reg. One that learns from the field
(`Pooled`, `Smooth`) says what its `posterior` is instead, and stands alone.

`register` makes a prior known by its name, so that a file that was saved with it can be read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fieldcal.core.ordered import Shape, order_of, ordered_mode, smooth_prior
from fieldcal.core.posterior import Posterior
from fieldcal.core.problem import Function, Penalty, Problem, Squares, check_gradient
from fieldcal.core.response import response_draws
from fieldcal.core.shrinkage import default_priors
from fieldcal.errors import InputError, InputTypeError
from fieldcal.options import as_number
from fieldcal.types import Floats

#: Draws of M behind every interval.
N_DRAWS = 64
#: No strength of a prior is larger: it counts pseudo-rows.
_LARGEST = 1e60

_KNOWN: dict[str, type[Prior]] = {}


@dataclass(frozen=True)
class Prior:
    """What is believed before the field is seen: subclass it, give it a ``name`` and a ``penalty``.

    Examples
    --------
    Prevalences of two classes near one half, as strongly as 20 labelled rows would:

    >>> import numpy as np
    >>> import fieldcal
    >>> from fieldcal.core.problem import Penalty
    >>> class Even(fieldcal.priors.Prior):
    ...     name = "even"
    ...     def penalty(self, problem):
    ...         return Penalty.of(problem, classes=np.array([10.0, 10.0]))
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> prev = fieldcal.estimate(lab, field, prior=Even() + fieldcal.priors.KL(5), trust=1)
    >>> prev.prior["name"]
    'even + kl'
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False  # whether its numbers come from the field

    def penalty(self, problem: Problem) -> Penalty:
        """L_reg of this prior."""
        raise InputError(f"The prior {self.name!r} has no penalty of its own: it learns from the field.")

    def posterior(
        self, problem: Problem, *, random_state: int, learnt: Mapping[str, Any] | None = None
    ) -> Posterior:
        """The prevalences given the field: uniform ones, times ``exp(−L_reg)``, times the likelihood.

        Parameters
        ----------
        problem : lab and field
        random_state : of the draws of M
        learnt : what an earlier call learnt from the same field, if it is known
        """
        penalty, rng = self.penalty(problem), np.random.default_rng(random_state)
        M, V = response_draws(problem.A, N_DRAWS, rng), problem.V + penalty.bins
        if penalty.classes.ndim != 1:
            raise InputError(
                f"The prior {self.name!r} has pseudo-rows of shape {penalty.classes.shape}, but they are for all "
                f"groups alike: one number for each of the {len(problem.F)} classes."
            )
        alpha = np.ones((N_DRAWS, len(problem.F))) + penalty.classes
        return Posterior(problem, M, V, alpha, penalty, rng, {})

    def spec(self) -> dict[str, Any]:
        """The name and the parameters, as JSON has them."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.repr}
        numbers = (np.generic, np.ndarray)
        return {"name": self.name} | {
            k: v.tolist() if isinstance(v, numbers) else v for k, v in values.items()
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Prior:
        """The prior that `spec` describes."""
        return cls(**{key: value for key, value in spec.items() if key != "name"})

    def __add__(self, other: Prior) -> Prior:
        return Sum((*_parts(self), *_parts(other)))

    def __radd__(self, other: object) -> Prior:
        """So that ``sum(priors)`` works: it starts from 0."""
        return self if other == 0 else Sum((*_parts(other), *_parts(self)))


def register(prior: type[Prior]) -> type[Prior]:
    """Make a prior known by its name."""
    _KNOWN[prior.name] = prior
    return prior


@dataclass(frozen=True)
class _WithStrength(Prior):
    """One whose penalty is multiplied by a strength, which counts pseudo-rows."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        words = "a finite number of pseudo-rows"
        as_number("The strength of a prior", self.strength, least=0, most=_LARGEST, words=words)


@register
@dataclass(frozen=True)
class Flat(Prior):
    """No preference: maximum likelihood.

    L_reg is constant, hence convex.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.Flat(), trust=1).prior["name"]
    'flat'
    """

    name: ClassVar[str] = "flat"

    def penalty(self, problem: Problem) -> Penalty:
        return Penalty.of(problem)


@register
@dataclass(frozen=True)
class KL(_WithStrength):
    """``strength × KL(p ‖ p_lab)``: the regularisation of the paper's text.

    Convex: negative entropy of ``p`` plus a linear function.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.KL(strength=10), trust=1).prior
    {'name': 'kl', 'strength': 10}
    """

    name: ClassVar[str] = "kl"

    def penalty(self, problem: Problem) -> Penalty:
        """The entropy term, centred on the lab."""
        return Penalty.of(problem, entropy=self.strength)


@register
@dataclass(frozen=True)
class KLBins(_WithStrength):
    """``strength × KL(Σ_i M_i ‖ p @ M)``: what the authors' R code calls its KL loss.

    Differs from the paper's text, which is `KL`: the divergence is taken on bins, and its first argument sums to the
    number of classes and not to one, so it pulls to equal prevalences and not to those of the lab. Convex: negative
    logarithms of linear functions of ``p``, as from ``strength × Σ_i M_i`` further rows in each bin.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.KLBins(strength=10), trust=1).prior
    {'name': 'kl_bins', 'strength': 10}
    """

    name: ClassVar[str] = "kl_bins"

    def penalty(self, problem: Problem) -> Penalty:
        return Penalty.of(problem, bins=self.strength * problem.M.sum(axis=0))


@register
@dataclass(frozen=True)
class Dirichlet(_WithStrength):
    """``strength × KL(p_lab ‖ p)``: like ``strength`` labelled rows with the lab's prevalences.

    A Dirichlet prior, conjugate to labels. Convex: negative logarithms of the coordinates of ``p``.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.Dirichlet(strength=10), trust=1).prior["name"]
    'dirichlet'
    """

    name: ClassVar[str] = "dirichlet"

    def penalty(self, problem: Problem) -> Penalty:
        return Penalty.of(problem, classes=self.strength * problem.p_lab)


@register
@dataclass(frozen=True)
class Continuity(_WithStrength):
    """``strength × Σ (p_{k+1} − p_k)²``: the paper's continuity term for classes with an order.

    Convex: a square of a linear function. It draws neighbours to each other, and so to equal prevalences whatever the
    lab was; `Smooth` is the better default.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(p_lab=[0.4, 0.3, 0.3], n_field=200, n_groups=1, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> prior = fieldcal.priors.KL(10) + fieldcal.priors.Continuity(5)
    >>> fieldcal.estimate(lab, field, prior=prior, trust=1).prior["name"]
    'kl + continuity'
    """

    name: ClassVar[str] = "continuity"

    def penalty(self, problem: Problem) -> Penalty:
        return Penalty.of(problem, terms=(Squares(float(self.strength)),))


@register
@dataclass(frozen=True)
class Custom(Prior):
    """A penalty of the caller's own: a function of the prevalences with its gradient.

    The gradient is compared with the function at a few points. A function that is not convex is taken as long as
    likelihood and L_reg together are, where they are smallest: the paper's theorem asks for no more, but promises a
    single minimum only for large fields.

    Parameters
    ----------
    value : (..., K) prevalences → (...) penalty
    gradient : (..., K) → (..., K), with respect to the prevalences

    Notes
    -----
    Functions cannot be saved: a file remembers that there was one, and its joint draws need the estimate in memory. A
    subclass of `Prior` with a name, made known by `register`, can be read again.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> rare = fieldcal.priors.Custom(lambda p: 50 * p[..., 1] ** 2, lambda p: 100 * p * [0, 1])
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.KL(1) + rare, trust=1).prior["name"]
    'kl + custom'
    """

    value: Callable[[Floats], Floats] = dataclasses.field(repr=False)
    gradient: Callable[[Floats], Floats] = dataclasses.field(repr=False)
    name: ClassVar[str] = "custom"

    def penalty(self, problem: Problem) -> Penalty:
        """The function itself, once its gradient is seen to be one."""
        term = Function(self.value, self.gradient)
        check_gradient(term, n_classes=len(problem.F))
        return Penalty.of(problem, terms=(term,))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Prior:
        raise InputError(
            "This estimate was made with a penalty of the caller's own, whose functions are not in the file. Estimate "
            "again with it, or give it a class of its own and fieldcal.core.priors.register."
        )


@register
@dataclass(frozen=True)
class Sum(Prior):
    """Several penalties together; what ``+`` makes of them."""

    parts: tuple[Prior, ...]
    name: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        lone = next((part for part in self.parts if part.learns), None)
        if lone is not None:
            raise InputError(
                f"The prior {lone.name!r} learns its numbers from the field and stands alone. Add up the others: flat, "
                "kl, dirichlet, continuity, your own."
            )

    def penalty(self, problem: Problem) -> Penalty:
        first, *rest = (part.penalty(problem) for part in self.parts)
        for penalty in rest:
            first = first + penalty
        return first

    def spec(self) -> dict[str, Any]:
        """The parts' names, joined, and the parts."""
        specs = [part.spec() for part in self.parts]
        return {"name": " + ".join(spec["name"] for spec in specs), "parts": specs}


def _parts(prior: object) -> tuple[Prior, ...]:
    if not isinstance(prior, Prior):
        raise InputTypeError(f"Only priors add up, such as KL(10) + Continuity(5), but got {prior!r:.60}.")
    return prior.parts if isinstance(prior, Sum) else (prior,)


@register
@dataclass(frozen=True)
class Pooled(Prior):
    """``p_g ~ Dirichlet(κ·μ)`` with ``κ`` and ``μ`` learnt from all groups: partial pooling, empirical Bayes.

    One population alone has nothing to pool with: it is expected to have moved, and its Dirichlet is centred on the lab
    with the strength that its rows speak for.

    Examples
    --------
    >>> import fieldcal
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.estimate(lab, field, prior=fieldcal.priors.Pooled(), trust=1).prior["name"]
    'pooled'
    """

    name: ClassVar[str] = "pooled"
    learns: ClassVar[bool] = True

    def posterior(
        self, problem: Problem, *, random_state: int, learnt: Mapping[str, Any] | None = None
    ) -> Posterior:
        """Under the shrinkage that the groups' histograms speak for."""
        rng = np.random.default_rng(random_state)
        M, V = response_draws(problem.A, N_DRAWS, rng), problem.V
        if learnt is not None:
            return Posterior(problem, M, V, np.asarray(learnt["alpha"]), Penalty.of(problem), rng, {})
        rng = np.random.default_rng(random_state + 1)  # not the stream that M was drawn from
        point, alpha = default_priors(problem, M, rng)
        return Posterior(
            problem,
            M,
            V,
            alpha,
            Penalty.of(problem, classes=point.kappa * point.mu),
            rng,
            {"kappa": point.kappa, "edge": point.edge, "alpha": alpha},
            point_alpha=point.alpha,
            edge=point.edge,
        )


@register
@dataclass(frozen=True)
class Smooth(Prior):
    """For classes with an order: the logarithm of ``p / p_lab`` walks at random along it.

    Its steps are learnt from the field; groups walk around the whole, in steps learnt from all of them. The default of
    labs learnt with ``ordered=True``.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(p_lab=[0.4, 0.3, 0.3], n_field=200, n_groups=1, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, trust=1).prior["name"]
    'smooth'
    """

    name: ClassVar[str] = "smooth"
    learns: ClassVar[bool] = True

    def posterior(
        self, problem: Problem, *, random_state: int, learnt: Mapping[str, Any] | None = None
    ) -> Posterior:
        """Under a path whose size and shape the histograms speak for."""
        rng = np.random.default_rng(random_state)
        M, V = response_draws(problem.A, N_DRAWS, rng), problem.V
        if learnt is None:
            found = smooth_prior(problem, M, rng=rng)
            learnt = {"alpha": found.alpha, "sigma": found.sigma, **found.shape._asdict()}
        alpha, shape = np.asarray(learnt["alpha"]), Shape(float(learnt["roughness"]), float(learnt["nugget"]))
        mean = alpha.mean(axis=0)
        strength = np.median(alpha.sum(axis=1)) * mean / mean.sum()
        return Posterior(
            problem,
            M,
            V,
            np.zeros(alpha.shape),
            Penalty.of(problem),
            rng,
            dict(learnt),
            order=order_of(alpha, shape),
            find_mode=lambda max_iter: ordered_mode(problem.M[None], V, strength, shape, max_iter=max_iter),
        )


PriorName = Literal["auto", "flat", "kl", "kl_bins", "dirichlet", "pooled", "smooth", "continuity"]
PriorLike = PriorName | Prior


def as_prior(prior: PriorLike, *, ordered: bool = False) -> Prior:
    """The prior that a name stands for; a prior stands for itself. ``ordered``: whether neighbours mean something."""
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, str) and prior == "auto":
        return Smooth() if ordered else Pooled()
    if isinstance(prior, str) and prior in _KNOWN and prior not in ("custom", "sum"):
        return _KNOWN[prior]()
    names = sorted({"auto", *_KNOWN} - {"custom", "sum"})
    raise InputError(f"prior must be one of {names} or an object such as KL(strength=10), but got {prior!r}.")


def prior_from(spec: Mapping[str, Any]) -> Prior:
    if "parts" in spec:
        return Sum(tuple(prior_from(part) for part in spec["parts"]))
    name = spec.get("name")
    if name not in _KNOWN:
        raise InputError(
            f"The prior {name!r:.60} is not known here. Import the module that defines it and makes it known with "
            "fieldcal.core.priors.register."
        )
    return _KNOWN[str(name)].from_spec(spec)
