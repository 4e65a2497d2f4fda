"""`core.backend.Backend` in SQL, and whatever else dialects spell differently; sqlglot does the quoting."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcal.core.backend import Expr as Expr
from fieldcal.errors import InputError, InputTypeError, MissingExtraError
from fieldcal.storage import did_you_mean

try:
    from sqlglot import ErrorLevel, exp
    from sqlglot.dialects.dialect import Dialects
    from sqlglot.errors import SqlglotError, UnsupportedError
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "sqlglot is needed for tables, but is not installed. Install it: pip install 'fieldcal[tables]'"
    ) from error

#: sqlglot reads or writes these, but they are no SQL that a table could be counted with.
_NOT_SQL = {"", "dax", "prql", "solr", "tableau"}
#: Where sqlglot's own type would not do: decimal in place of binary floats, text that cannot be grouped by, or
#: text that loses letters beyond the code page.
_DOUBLE = {"oracle": "BINARY_DOUBLE"}
_TEXT = {"oracle": "VARCHAR2(4000)", "tsql": "NVARCHAR(MAX)"}
#: Sums of 64-bit integers wrap around or fail here, from some billions of rows in one group on.
_NARROW_SUMS = {
    "athena",
    "bigquery",
    "clickhouse",
    "databricks",
    "fabric",
    "hive",
    "presto",
    "spark",
    "spark2",
    "trino",
    "tsql",
}
#: A function counts rows that meet a condition, faster than CASE.
_COUNTS_IF = {"databricks", "duckdb", "spark"}
#: NaN has a function of its own, or equals itself.
_NAN_BY_NAME = {"athena", "bigquery", "clickhouse", "databricks", "presto", "spark", "spark2", "trino"}
_NAN_BY_VALUE = {"materialize", "postgres", "redshift", "risingwave", "snowflake"}
#: Text is usually compared without regard to case and to blanks at its end.
_LOOSE_TEXT = {"fabric", "mysql", "teradata", "tsql"}
#: ``${x}`` is replaced in the text of a statement before it is read, even inside quotes.
_SUBSTITUTING = {"databricks", "hive", "spark", "spark2"}
#: Truth values are numbers, or become text in another spelling than 'true' and 'false'.
_NO_TRUTH = {"fabric", "mysql", "oracle", "sqlite", "tsql"}


class SqlBackend:
    """`core.backend.Backend` for one dialect of SQL, with casts, sums and names.

    Parameters
    ----------
    local : whether an engine of this process runs the statements, DuckDB or Spark, whose numbers with an exponent are
        float64; those of a warehouse are cast from text
    """

    def __init__(self, dialect: str, *, local: bool = False) -> None:
        self.dialect, self.local = _known(dialect), local
        self.blank = " " if self.dialect == "oracle" else ""  # '' is null in Oracle
        self.loose_text = self.dialect in _LOOSE_TEXT
        self.has_truth = self.dialect not in _NO_TRUTH

    def number(self, value: float) -> Expr:
        """A float64 constant. From text, as a literal would be a decimal in many dialects; whole ones are exact."""
        if float(value).is_integer() and abs(value) <= 2**30:
            return self.integer(int(value))
        if not self.local:
            return self.double(exp.Literal.string(repr(float(value))))
        text = repr(abs(float(value)))
        literal = exp.Literal(this=text if "e" in text else f"{text}e0", is_string=False)
        return exp.Neg(this=literal) if value < 0 else literal

    def pick(self, index: Expr, values: Sequence[float]) -> Expr:
        """One of several numbers, by its place from 0."""
        place, held = index + self.integer(1), exp.Array(expressions=[self._double(v) for v in values])
        name = "LIST_EXTRACT" if self.dialect == "duckdb" else "ELEMENT_AT"
        return exp.Anonymous(this=name, expressions=[held, place])

    def _double(self, value: float) -> Expr:
        """A float64 constant, also of a whole number."""
        return self.double(self.number(value)) if float(value).is_integer() else self.number(value)

    def integer(self, value: int) -> Expr:
        """A whole constant."""
        literal = exp.Literal(this=str(abs(int(value))), is_string=False)
        return exp.Neg(this=literal) if value < 0 else literal

    def string(self, value: str) -> Expr:
        """A text constant."""
        if self.dialect in _SUBSTITUTING and "${" in value:
            pieces = re.split(r"(?<=\$)(?=\{)", value)
            return exp.func("CONCAT", *map(exp.Literal.string, pieces), dialect=self.dialect)
        return exp.National(this=value) if self.dialect == "tsql" else exp.Literal.string(value)

    def label(self, value: str | int | bool) -> Expr:
        """A class as a constant; where there are no truth values, 1 and 0."""
        if isinstance(value, bool) and self.has_truth:
            return exp.true() if value else exp.false()
        return self.string(value) if isinstance(value, str) else self.integer(value)

    def null(self) -> Expr:
        """No value."""
        return exp.null()

    def when(self, condition: Expr, then: Expr, otherwise: Expr | None = None) -> Expr:
        """Then, if the condition is true; otherwise (by default null), if it is false or null."""
        branches = [exp.If(this=condition, true=then)]
        if isinstance(otherwise, exp.Case):  # one list of questions reads better than a nest
            branches += otherwise.args["ifs"]
            otherwise = otherwise.args.get("default")
        return exp.Case(ifs=branches, default=otherwise)

    def floor(self, value: Expr) -> Expr:
        """The largest whole number not above, as int64."""
        return self.int64(exp.Floor(this=value))

    def quotient(self, value: Expr, by: Expr) -> Expr:
        """Of whole numbers that are not negative, without the remainder."""
        return exp.IntDiv(this=value, expression=by)

    def largest(self, values: Sequence[Expr]) -> Expr:
        """The largest of several, none of them null."""
        return (
            values[0] if len(values) == 1 else exp.func("GREATEST", *values, dialect=self.dialect, copy=False)
        )

    def cast(self, value: Expr, kind: str) -> Expr:
        """As a type of sqlglot."""
        return exp.cast(value, kind, copy=False)

    def double(self, value: Expr) -> Expr:
        """As float64."""
        name = _DOUBLE.get(self.dialect)
        return exp.cast(value, exp.DataType.build(name, udt=True) if name else "DOUBLE", copy=False)

    def int64(self, value: Expr) -> Expr:
        """As int64."""
        return exp.cast(value, "BIGINT", copy=False)

    def coalesce(self, value: Expr, otherwise: Expr) -> Expr:
        """The value, or something else where it is null."""
        return exp.func("COALESCE", value, otherwise, copy=False)

    def text(self, value: Expr) -> Expr:
        """As text, never null."""
        name = _TEXT.get(self.dialect)
        kind = exp.DataType.build(name, dialect=self.dialect) if name else "TEXT"
        return self.coalesce(exp.cast(value, kind), self.string(self.blank))

    def absent(self, value: Expr) -> Expr:
        """Whether null."""
        return exp.Is(this=value, expression=exp.null())

    def is_null(self, value: Expr) -> Expr:
        """1 where null, 0 elsewhere."""
        return self.when(self.absent(value), self.integer(1), self.integer(0))

    def is_number(self, value: Expr) -> Expr:
        """Whether a float is neither null nor NaN.

        A number or its negative is at most zero. NaN is above all numbers in some engines and not comparable in
        others; this is false in both. Where there is a word for NaN it is said too: engines that trust the statistics
        of a file, which leave NaN out, take comparisons for true.
        """
        zero = self.number(0.0)
        compared = exp.paren((value <= zero) | (-value <= zero))
        if self.dialect == "duckdb":  # it trusts the statistics with ISNAN too
            infinite = [value.eq(self.double(exp.Literal.string(text))) for text in ("inf", "-inf")]
            return exp.paren(exp.or_(exp.func("ISFINITE", value), *infinite))
        if self.dialect in _NAN_BY_NAME:
            return compared & exp.not_(exp.IsNan(this=value))
        if self.dialect in _NAN_BY_VALUE:
            return compared & value.neq(self.double(exp.Literal.string("NaN")))
        return compared

    def cut_time(self, value: Expr, unit: str) -> Expr:
        """The start of the second, day, month and so on of a date or time, as the clock shows it."""
        plain = exp.cast(value, "TIMESTAMPNTZ")
        return exp.cast(exp.TimestampTrunc(this=plain, unit=exp.var(unit)), "TIMESTAMPNTZ")

    def is_finite(self, value: Expr) -> Expr:
        """Whether a float is a number, and no infinite one, or is a number where the engine has no word for it."""
        return exp.func("ISFINITE", value, copy=False) if self.dialect == "duckdb" else self.is_number(value)

    def whole_if(self, condition: Expr, value: Expr) -> Expr:
        """The largest whole number not above, where a condition is met; in DuckDB wherever there is one: faster."""
        if self.dialect == "duckdb":
            return exp.TryCast(this=exp.Floor(this=value), to=exp.DataType.build("BIGINT"))
        return self.floor(self.when(condition, value))

    def count(self, condition: Expr | None = None) -> Expr:
        """How many rows, or how many for which the condition is true."""
        if condition is not None and self.dialect in _COUNTS_IF:
            counted = self.coalesce(
                exp.CountIf(this=condition), self.integer(0)
            )  # of no rows, null in DuckDB
            return self.int64(counted) if self.local else counted
        what = exp.Star() if condition is None else self.when(condition, self.integer(1))
        return exp.Count(this=what, big_int=True)

    def sum(self, value: Expr) -> Expr:
        """An exact sum of whole numbers, 0 of none."""
        if self.dialect in _NARROW_SUMS:
            value = exp.cast(value, "DECIMAL(38, 0)")
        return self.coalesce(exp.Sum(this=value), self.integer(0))

    def constant(self, value: Any) -> Expr:
        """A value of Python, or of numpy, as a constant."""
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, (str, bool)):
            return self.label(value)
        if isinstance(value, int):
            return exp.Literal.number(value)
        if isinstance(value, float):
            return self.double(exp.Literal.string(repr(value)))
        return exp.cast(
            exp.Literal.string(str(value)), "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
        )

    def among(self, value: Expr, values: Sequence[Any]) -> Expr:
        """Whether the value is one of these."""
        return exp.In(this=value, expressions=[self.constant(v) for v in values])

    def least(self, value: Expr) -> Expr:
        """The smallest of all rows."""
        return exp.Min(this=value)

    def most(self, value: Expr) -> Expr:
        """The largest of all rows."""
        return exp.Max(this=value)

    def first(self, value: Expr, condition: Expr) -> Expr:
        """The value of one of the rows that meet a condition."""
        return exp.Filter(this=exp.First(this=value), expression=exp.Where(this=condition))

    def row_number(self, order: Sequence[Expr] = (), within: Sequence[Expr] = ()) -> Expr:
        """The position of a row, from 0: in a table, or among the rows of a part in an order."""
        window = exp.Window(this=exp.RowNumber(), partition_by=[e.copy() for e in within])
        if order:
            window.set("order", exp.Order(expressions=[exp.Ordered(this=e, nulls_first=True) for e in order]))
        return window - self.integer(1)

    def name(self, text: str) -> exp.Identifier:
        """A name, quoted. sqlglot does not know of ClickHouse's escapes in names."""
        if self.dialect == "clickhouse" and "\\" in text:
            raise InputError(
                f"The name {text!r:.80} has a backslash, an escape in ClickHouse. Rename it in a view."
            )
        return exp.to_identifier(text, quoted=True)

    def column(self, name: str, table: str | None = None) -> Expr:
        """A column, its name taken literally."""
        return exp.column(self.name(name), table=None if table is None else self.name(table))

    def alias(self, value: Expr, name: str) -> Expr:
        """Under a name, taken literally."""
        return exp.Alias(this=value, alias=self.name(name))

    def source(self, table: str, alias: str) -> Expr:
        """A table of the user's, whose name is read as the dialect reads it."""
        parts = _parse_table(table, self.dialect)
        checked = {k: self.name(v.name) if v.args.get("quoted") else v for k, v in parts.items()}
        return exp.alias_(exp.Table(**checked), alias, quoted=True, table=True)

    def values(self, rows: Sequence[Sequence[Expr]], names: Sequence[str], alias: str) -> Expr:
        """A small table written out. SQLite gives its columns names of its own."""
        tuples = [tuple(r) for r in rows]
        columns: list[Any] = [self.name(name) for name in (alias, *names)]
        if self.dialect != "sqlite":
            return exp.values(tuples, alias=columns[0], columns=columns[1:])
        own = (self.alias(exp.column(f"column{i + 1}"), name) for i, name in enumerate(names))
        return exp.select(*own).from_(exp.values(tuples, alias="v")).subquery(columns[0])

    def select(
        self, kept: Sequence[str], made: Mapping[str, Expr], source: Expr, *, whole: str | None = None
    ) -> Expr:
        """Columns as they are (all of a table's with ``whole``) and made ones under their names, from one source."""
        columns: list[Any] = [self.column(name) for name in kept]
        if whole is not None:
            columns.append(exp.Column(this=exp.Star(), table=self.name(whole)))
        new = [self.alias(e, name) for name, e in made.items()]
        return exp.select(*columns, *new, copy=False).from_(source, copy=False)

    def step(self, name: str, alias: str | None = None) -> Expr:
        """An earlier step of the same statement, as a source."""
        step = exp.table_(name, quoted=True)
        return step if alias is None else exp.alias_(step, alias, quoted=True, table=True)

    def after(self, steps: Mapping[str, Expr], query: Expr) -> Expr:
        """The query with earlier steps before it, each under its name."""
        query = query.copy()
        for name, step in steps.items():
            query = query.with_(self.name(name), as_=step, copy=False)
        return query

    def write(self, query: Expr) -> str:
        """The statement. Expressions are shared until here, as every copy of a large one takes its time."""
        query = query.copy()
        _tidy(query)
        try:
            text: str = query.sql(dialect=self.dialect, pretty=True, unsupported_level=ErrorLevel.RAISE)
        except UnsupportedError as error:
            raise InputError(
                f"The dialect {self.dialect!r} cannot express this statement: {error}. Export the table to parquet "
                "and use `fieldcal count` instead."
            ) from None
        if self.dialect in _SUBSTITUTING and "${" in text:
            raise InputError(
                f"A name with '${{' in it cannot be written for {self.dialect}, which replaces ${{…}} before it reads "
                "a statement. Rename the column, for instance in a view."
            )
        return text


def _tidy(query: Expr) -> None:
    """Adds parentheses where precedence needs them, and removes others: sqlglot's operators do neither reliably."""
    for division in query.find_all(exp.Div):  # of floats: no casts are needed
        division.set("typed", True)
    for paren in list(query.find_all(exp.Paren)):
        paren.replace(paren.this)
    for node in list(query.find_all(exp.Binary)):
        if _is_ambiguous(node):
            paren = exp.Paren()
            node.replace(paren)
            paren.set("this", node)


def _is_ambiguous(node: exp.Binary) -> bool:
    """Whether an operator inside another could be read in another order than that of the tree."""
    outer = node.parent
    if isinstance(outer, exp.Connector):
        return isinstance(node, exp.Connector) and type(node) is not type(outer)
    if isinstance(outer, exp.Binary):  # floats are added from left to right
        return not (isinstance(node, exp.Add) and isinstance(outer, exp.Add) and node is outer.this)
    return isinstance(outer, (exp.Neg, exp.Not))


def _known(dialect: Any) -> str:
    names = sorted(d.value for d in Dialects if d.value not in _NOT_SQL)
    if not isinstance(dialect, str):
        raise InputTypeError(f"dialect must be a name such as 'postgres', but got {dialect!r:.60}.")
    if dialect.lower() not in names:
        raise InputError(
            f"There is no SQL dialect {dialect!r:.60}.{did_you_mean(dialect.lower(), names)} Known are "
            f"{', '.join(names)}."
        )
    return dialect.lower()


def _parse_table(table: Any, dialect: str) -> dict[str, Any]:
    """The identifiers of ``catalog.schema.table`` and nothing else that could stand in a FROM."""
    if not isinstance(table, str):
        raise InputTypeError(f"table must be the name of a table, but got {table!r:.60}.")
    try:
        parsed = exp.to_table(table, dialect=dialect) if table.strip() else None
    except SqlglotError:
        parsed = None
    parts = {k: v for k, v in parsed.args.items() if v} if isinstance(parsed, exp.Table) else {}
    identifiers = all(isinstance(v, exp.Identifier) and v.name.strip() for v in parts.values())
    if "this" not in parts or not identifiers or not parts.keys() <= {"this", "db", "catalog"}:
        example = exp.table_("my table", db="schema", quoted=True).sql(dialect=dialect)
        raise InputError(
            f"{table!r:.80} is not the name of a table in {dialect}. Write it as in a FROM clause, such as "
            f"schema.table, and quote names with blanks or dots: {example}."
        )
    return parts
