"""Commands from signatures: the parameters of a command are its own and those of the functions that it runs.

A parameter of such a function that has a row in the table of options is a flag: the row has its help, its metavar and
how its text is read; the signature has its default and its type. Functions are named by text, ``"tables.count:count"``,
and their signatures are read from the source, so that ``--help`` loads neither numpy nor an engine.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import fieldcal
from fieldcal.cli.from_text import READERS
from fieldcal.cli.inputs import check_files
from fieldcal.cli.output import Settings
from fieldcal.errors import FieldcalError, InputError, spelled
from fieldcal.option_rows import OPTIONS, Row, row_of
from fieldcal.options import flag_of

#: A function, or the module of fieldcal and the name of one.
Verb = str | Callable[..., Any]
_FOLDER = Path(__file__).parents[1]
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (bool, int, float, Path)}
_TYPES |= {"list[Path]": list[Path], "list[str]": list[str]}


@functools.cache
def parameters_of(verb: Verb) -> Mapping[str, inspect.Parameter]:
    """The keyword-only parameters of a function, with their annotations as text.

    Examples
    --------
    >>> from fieldcal.cli.signature import parameters_of
    >>> parameters_of("tables.count:count")["normalize"]
    <Parameter "normalize: 'bool' = False">
    """
    if not isinstance(verb, str):
        found = inspect.signature(verb).parameters
        return {name: p for name, p in found.items() if p.kind is p.KEYWORD_ONLY}
    module, _, name = verb.partition(":")
    source = _FOLDER.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    start = source.index(f"def {name.rpartition('.')[2]}(")
    end = source.index(":\n", source.index(") ->", start))
    (function,) = ast.parse(f"{source[start:end]}: ...").body  # the whole module would take ten times as long
    assert isinstance(function, ast.FunctionDef)
    arguments = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {a.arg: _parameter(a.arg, a.annotation, default) for a, default in arguments}


def _parameter(name: str, annotation: ast.expr | None, default: ast.expr | None) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    text = "" if annotation is None else ast.unparse(annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=text)


def taken(verb: Verb, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in parameters_of(verb) if name in given}


@dataclass(frozen=True)
class Command:
    """A command: the function behind it, and the functions whose options it has.

    Parameters
    ----------
    function : its positional parameters are arguments, its keyword-only ones options; ``**given`` are those of verbs
    reads, writes : parameters that name files; what is read is never written over
    without : parameters of verbs that the command does not have
    """

    name: str
    function: Callable[..., int | None]
    verbs: tuple[Verb, ...]
    reads: Sequence[str]
    writes: Sequence[str]
    without: Sequence[str]

    @functools.cached_property
    def own(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(self.function).parameters.values()
        return {p.name: p for p in found if p.name != "settings" and p.kind is not p.VAR_KEYWORD}

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """All parameters: its own, and those of its verbs that are flags."""
        found = dict(self.own)
        for verb in self.verbs:
            for name, parameter in parameters_of(verb).items():
                row = row_of(name, self.name)
                is_flag = row is not None and row.flag is not None and row.flag not in OPTIONS
                if is_flag and name not in self.without:
                    found.setdefault(name, parameter)
        return found

    def row(self, name: str) -> Row:
        """What the table of options has of a parameter."""
        row = row_of(name, self.name)
        if row is None:
            raise LookupError(f"The option {name!r} of {self.name!r} has no row in OPTIONS.")
        return row

    def __call__(self, settings: Settings, values: Mapping[str, Any]) -> int | None:
        """Check the files, read the texts, run."""
        self._check_files(settings, values)
        return self.function(settings, **{name: self._read(name, value) for name, value in values.items()})

    def _check_files(self, settings: Settings, values: Mapping[str, Any]) -> None:
        read = [values[name] for name in self.reads if values[name] is not None]
        inputs = [str(file) for given in read for file in (given if isinstance(given, list) else [given])]
        check_files(settings, [values[name] for name in self.writes if values[name] is not None], inputs)

    def _read(self, name: str, text: Any) -> Any:
        """The value of an option from its text."""
        row, parameter = self.row(name), self.parameters[name]
        if text is None:
            return None if parameter.default is parameter.empty else parameter.default
        try:
            read = READERS.get(name, row.read)
            value = text if read is None else read(text)
        except FieldcalError:
            raise
        except ValueError:
            shown = ", ".join(text) if isinstance(text, list) else text
            raise InputError(f"{flags_of(name, row)[-1]} must {row.must}, but got {shown!r:.60}.") from None
        if row.valid is not None and not row.valid(value):
            raise InputError(f"{flags_of(name, row)[-1]} must {row.must}, but got {text!r:.60}.")
        return value

    def typed(self) -> Callable[..., int | None]:
        """The command as typer takes it: a function with annotations."""

        def run(ctx: typer.Context, **values: Any) -> int | None:
            return self(ctx.obj, values)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
        for name, p in self.parameters.items():
            row = self.row(name)
            default = _default(p, row)
            shown = _typer_argument(row) if _is_argument(p) else _typer_option(name, p, row)
            annotation: Any = Annotated[_type_of(p, row), shown]
            parameters.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = self.function.__doc__
        return run


def command(
    *verbs: Verb,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    without: Sequence[str] = (),
    name: str | None = None,
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a function a command with the options of the verbs that it runs; see `Command`."""

    def declare(function: Callable[..., int | None]) -> Command:
        return Command(name or function.__name__.replace("_", "-"), function, verbs, reads, writes, without)

    return declare


def flags_of(name: str, row: Row) -> list[str]:
    """How an option is typed: short flags first."""
    short = [f"-{letter}" for letter in row.also if len(letter) == 1]
    return [
        *short,
        f"--{row.flag or name.replace('_', '-')}",
        *(f"--{word}" for word in row.also if len(word) > 1),
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_OR_KEYWORD


def _typer_argument(row: Row) -> Any:
    return typer.Argument(metavar=row.metavar, help=spelled(row.help, flag_of))


def _typer_option(name: str, parameter: inspect.Parameter, row: Row) -> Any:
    is_flag = parameter.annotation == "bool"
    metavar = None if is_flag or _words(parameter, row) else row.metavar
    return typer.Option(*flags_of(name, row), metavar=metavar, help=spelled(row.help, flag_of))


def _words(parameter: inspect.Parameter, row: Row) -> tuple[str, ...]:
    """The words that are allowed, by the signature or else by the table."""
    text = str(parameter.annotation)
    if text.startswith("Literal[") and text.endswith("]"):
        return tuple(ast.literal_eval(text.removeprefix("Literal")))
    return row.choices


def _default(parameter: inspect.Parameter, row: Row) -> Any:
    default = parameter.default
    if default is parameter.empty or isinstance(default, bool) or default is None:
        return default
    if row.many:
        return None  # () is none
    return default if row.read is None else str(default)


def _type_of(parameter: inspect.Parameter, row: Row) -> Any:
    """The type that typer reads; text where the row has a reader."""
    kind: Any = str
    if row.many:
        kind = list[str]
    elif words := _words(parameter, row):
        kind = Literal[words]
    elif row.read is None:
        kind = _TYPES.get(str(parameter.annotation).removesuffix(" | None"), str)
    return kind | None if _default(parameter, row) is None else kind


#: The options that may stand before or after every command.
EVERYWHERE = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "warnings")


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Into the settings; not given after the command must not undo given before it."""
    if value and param.name:
        setattr(ctx.obj, param.name, value)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"fieldcal {fieldcal.__version__}\n")
        raise typer.Exit


def _everywhere(*flags: str, **more: Any) -> Any:
    panel = "Options of every command"
    return typer.Option(
        *flags, callback=_remember, expose_value=False, rich_help_panel=panel, show_default=False, **more
    )


def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    json: Annotated[bool, _everywhere("--json", help="One JSON object on standard output.")] = False,
    quiet: Annotated[bool, _everywhere("--quiet", "-q", help="Results and errors only.")] = False,
    debug: Annotated[bool, _everywhere("--debug", help="Show where an error came from.")] = False,
    memory_limit: Annotated[
        str | None,
        _everywhere("--memory-limit", metavar="SIZE", help="Of DuckDB, such as 1GB; more goes to disk."),
    ] = None,
    threads: Annotated[int | None, _everywhere("--threads", metavar="N", min=1, help="Of DuckDB.")] = None,
) -> None:
    """Recalibrate a deployed model from nothing but the predictions it makes in the field.

    learn, count, estimate, recalibrate; or all of it with run.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
