"""A package of dbt: the statements of `sql` as macros, which take whatever relation they are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Literal

from fieldcal.errors import InputError, InputTypeError, Option
from fieldcal.objects import Lab, Prevalence
from fieldcal.tables.columns import group_columns, new_names, score_names
from fieldcal.tables.sql import count_statement, decide_statement, recalibrate_statement
from fieldcal.types import Shape

#: Everything that is ever in such a folder. No folder is inside, so that all of it is old or all of it new.
FILES = ("dbt_project.yml", "README.md", "count.sql", "recalibrate.sql", "decide.sql")
#: The first line of the project's file, by which a folder is known as one of ours.
MARK = "# Written by fieldcal: made anew by `fieldcal sql dbt`, so change nothing here."
_PACKAGE = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
#: What YAML reads as a truth value or as nothing, and the name that dbt has for itself.
_NO_NAMES = frozenset(("true", "false", "on", "off", "yes", "no", "y", "n", "null", "dbt"))
_PROJECT = """\
{mark}
name: {package}
version: "1.0.0"
config-version: 2
# Macros alone, and beside this file.
macro-paths: ["."]
model-paths: ["none"]
seed-paths: ["none"]
snapshot-paths: ["none"]
analysis-paths: ["none"]
test-paths: ["none"]
docs-paths: ["none"]
"""
_README = """\
# {package}: macros of fieldcal

Made by `fieldcal sql dbt` from the {kind} `{digest}`, for the dialect {dialect}.
Make it anew from the next estimate, and change nothing here.

In `packages.yml` of your project, with the path of this folder, and then `dbt deps`:

```yaml
packages:
  - local: ../{package}
```

In models:

```sql
{usage}
```
"""
_USAGE = "select * from ({{{{ {package}.{verb}(ref('predictions')) }}}}) as new  -- {what}"
_WHAT = {
    "count": "predictions per group and bin, for `fieldcal estimate`",
    "recalibrate": "every row and column, and recalibrated predictions",
    "decide": "the same, and the decided class",
}
_FILE = """\
{{% macro {verb}(relation) -%}}
{statement}
{{%- endmacro %}}
"""


def dbt_package(
    artefact: Lab | Prevalence,
    *,
    dialect: str,
    package: str = "fieldcal",
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    label: str | None = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    unseen: Literal["global", "raw"] = "global",
    name: str = "{}_recalibrated",
    decision: str = "decision",
    acknowledge: bool = False,
    shape: Shape = "tilt",
) -> dict[str, str]:
    """The files of a dbt package, by name: macros ``count``, ``recalibrate`` and ``decide``, each of a relation.

    Parameters
    ----------
    artefact : Lab or Prevalence
        Of a lab there is ``count`` alone.
    dialect : str
        As in `count_statement`: that of the warehouse which dbt talks to.
    package : str
        The name of the package: macros are called as ``fieldcal.recalibrate(ref('predictions'))``.
    by, scores : columns of the groups and of the predictions
        By default those that were counted.
    label : column of the true classes that ``count`` counts, optional
    goal, decision : as ``goal`` and ``name`` in `decide_statement`
    unseen, name, acknowledge, shape : as in `recalibrate_statement`

    Notes
    -----
    Names and groups are text to dbt, whatever they hold: what would be a command of Jinja is written such that it comes
    out as it was.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> made = fieldcal.tables.dbt_package(prev, dialect="duckdb", scores="p")
    >>> print(made["recalibrate.sql"])
    {% macro recalibrate(relation) -%}
    SELECT
      "fieldcal_row".*,
      CASE WHEN ... END AS "p_recalibrated"
    FROM {{ relation }} AS "fieldcal_row"
    {%- endmacro %}
    """
    _check_package(package)
    if not isinstance(artefact, (Lab, Prevalence)):
        raise InputTypeError(f"This takes a Lab or a Prevalence first, but got {type(artefact).__name__}.")
    made: dict[str, str] = {}
    usual: dict[str, str | bool] = {
        "goal": "accuracy",
        "unseen": "global",
        "shape": "tilt",
        "acknowledge": False,
    }
    usual |= {"name": "{}_recalibrated", "decision": "decision"}
    given = {"goal": goal, "unseen": unseen, "shape": shape, "acknowledge": acknowledge}
    given |= {"name": name, "decision": decision}
    lost = [option for option, value in given.items() if not _is(value, usual[option])]
    if isinstance(artefact, Lab) and lost:
        raise InputError(Option(lost[0]), " goes with an estimate: of a lab there is the macro count alone.")
    if isinstance(artefact, Prevalence):
        by = group_columns(artefact, by)
        _check_decision(artefact.lab, by, scores, name, decision)
        same: dict[str, Any] = {"dialect": dialect, "by": by, "scores": scores, "unseen": unseen}
        same |= {"acknowledge": acknowledge, "shape": shape}
        made["recalibrate"] = _macro(partial(recalibrate_statement, artefact, name=name, **same))
        deciding: dict[str, Any] = {"goal": goal, "name": decision, "recalibrated": name}
        made["decide"] = _macro(partial(decide_statement, artefact, **deciding, **same))
    lab = artefact if isinstance(artefact, Lab) else artefact.lab
    made["count"] = _macro(partial(count_statement, lab, dialect=dialect, by=by, scores=scores, label=label))
    return {
        "dbt_project.yml": _PROJECT.format(mark=MARK, package=package),
        "README.md": _README.format(
            package=package,
            dialect=dialect,
            kind=artefact.kind,
            digest=artefact.digest,
            usage="\n".join(
                _USAGE.format(package=package, verb=verb, what=_WHAT[verb]) for verb in sorted(made)
            ),
        ),
        **{f"{verb}.sql": _FILE.format(verb=verb, statement=text) for verb, text in made.items()},
    }


def _is(value: Any, usual: str | bool) -> bool:
    """Whether an option, whatever it is, was left as it is."""
    return type(value) is type(usual) and bool(value == usual)


def _check_package(package: Any) -> None:
    if not isinstance(package, str) or not _PACKAGE.fullmatch(package) or package in _NO_NAMES:
        raise InputError(
            f"package must be a name of small letters, digits and underscores, such as fieldcal_churn, and no word of "
            f"YAML or dbt, but got "
            f"{package!r:.60}."
        )


def _check_decision(lab: Lab, by: Sequence[str], scores: Any, name: str, decision: str) -> None:
    """By the name that it has here: `decide_statement` calls it otherwise."""
    columns = score_names(lab, scores)
    taken = [*columns, *by, *new_names(columns, [*columns, *by], name)]
    new_names(columns[:1], taken, decision, option="decision")


def _macro(write: Callable[[str], str]) -> str:
    """A statement with a relation that is known later: a name that is nowhere in it is where it belongs."""
    elsewhere = write("t")
    mark = next(name for name in (f"fieldcal_relation_{k}" for k in count()) if name not in elsewhere)
    before, after = write(mark).split(mark)
    return f"{_inert(before)}{{{{ relation }}}}{_inert(after)}"


def _inert(text: str) -> str:
    """Text that Jinja gives back as it is: no brace to begin a command, no line end that it would change."""
    return "".join({"{": "{{ '{' }}", "\r": r"{{ '\r' }}"}.get(c, c) for c in text)
