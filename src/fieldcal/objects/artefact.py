"""Base class of Lab, Field and Prevalence: frozen, strictly validated, with a file format.

A file is JSON with a schema version and a digest of its content; saving, loading and saving again gives the same
bytes. Arrays are read-only; classes and group keys keep their Python types.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Mapping
from functools import cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NoReturn,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticSerializationError

from fieldcal import storage
from fieldcal.core import partition as parts
from fieldcal.errors import ArtefactError, FieldcalError, InputTypeError
from fieldcal.objects import group_keys
from fieldcal.options import MADE_BY

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SCHEMA_VERSION = 1
#: Counts, weights and their sums are zero or between 1 / LARGEST and LARGEST, so that squares and products of them
#: neither overflow nor underflow.
LARGEST = 1e60
#: Sums of predictions are kept as integers in units of 2**-30, so that merging is exact in any order.
SCORE_UNIT = 2.0**-30
#: Single whole numbers in a file, such as numbers of rows, are below this.
MOST = 2**62


def _read_only(values: Any) -> NDArray[Any]:
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        raise ValueError("rows of unequal length or numbers out of range") from None
    if array.dtype.kind == "u":  # above 2**63
        array = array.astype(np.float64)
    if array.ndim == 0:
        raise ValueError("a list expected")
    if array.size == 0:
        array = array.astype(
            np.int64
        )  # an empty array is integer, so that it does not turn others into floats
    if array.dtype.kind not in "iuf":
        raise ValueError(f"numbers expected, got {array.dtype}")
    array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("numbers must be finite")
    array.setflags(write=False)
    return array


def count_array(values: Any) -> NDArray[Any]:
    """Counts as a read-only array: finite, not negative, within `LARGEST`; integers stay integers."""
    array = _read_only(values)
    if array.size and array.min() < 0:
        raise ValueError("counts must not be negative")
    if array.dtype.kind == "f" and (array.max() > LARGEST or np.any((array > 0) & (array < 1 / LARGEST))):
        raise ValueError(f"counts must be zero, or between {1 / LARGEST:g} and {LARGEST:g}")
    return array


def float_array(values: Any) -> NDArray[np.float64]:
    array = _read_only(values).astype(np.float64)
    array.setflags(write=False)
    return array


def _bool_array(values: Any) -> NDArray[np.bool_]:
    try:
        array = np.array(values, dtype=bool) if np.size(values) == 0 else np.array(values)
    except ValueError:
        raise ValueError("rows of unequal length") from None
    if array.dtype.kind != "b":
        raise ValueError(f"true or false expected, got {array.dtype}")
    array.setflags(write=False)
    return array


def _key_tuple(values: Any) -> tuple[Hashable, ...]:
    if not isinstance(values, (tuple, list)):
        raise ValueError("a list of keys expected")
    keys = tuple(values)
    if not set(map(type, keys)) <= {str, int, bool, type(None)}:  # plain keys need no decoding
        keys = tuple(map(group_keys.normalize if isinstance(values, tuple) else group_keys.decode, keys))
    if not group_keys.distinct(keys):
        raise ValueError("a key appears twice")
    return keys


def _list_of(*types: str) -> WithJsonSchema:
    """JSON schema of a list; tables are lists of lists."""
    return WithJsonSchema({"type": "array", "items": {"type": list(types)}})


_to_list = PlainSerializer(lambda array: array.tolist(), return_type=list)
Counts = Annotated[NDArray[Any], PlainValidator(count_array), _to_list, _list_of("number", "array")]
Numbers = Annotated[NDArray[np.float64], PlainValidator(float_array), _to_list, _list_of("number", "array")]
Flags = Annotated[NDArray[np.bool_], PlainValidator(_bool_array), _to_list, _list_of("boolean")]
KeyTuple = Annotated[
    tuple[Hashable, ...],
    PlainValidator(_key_tuple),
    PlainSerializer(lambda ks: [group_keys.encode(k) for k in ks], return_type=list),
    _list_of("string", "number", "boolean", "null", "array", "object"),  # an object is tagged: {"date": "…"}
]
Texts = Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]


def _partition(values: Any) -> parts.Partition:
    if not isinstance(values, parts.Partition):
        return parts.from_spec(values)
    if not parts.is_registered(values):
        raise ValueError(
            f"decorate {type(values).__name__} with register_partition, so that files can hold it"
        )
    return values


PartitionField = Annotated[
    parts.Partition,
    BeforeValidator(_partition),
    PlainSerializer(lambda partition: partition.spec(), return_type=dict),
    WithJsonSchema({"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}),
]


def _learnt(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ValueError("numbers by name expected")
    return {str(name): _record_value(value) for name, value in values.items()}


Learnt = Annotated[
    dict[str, Any],
    PlainValidator(_learnt),
    PlainSerializer(
        lambda found: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()},
        return_type=dict,
    ),
    WithJsonSchema({"type": "object"}),
]


def check_shapes(held: object, shapes: Mapping[str, tuple[int, ...]], where: str = "") -> None:
    """Refuse arrays of the wrong shape; fields that are None are skipped."""
    for name, shape in shapes.items():
        table = getattr(held, name)
        if table is not None and table.shape != shape:
            raise ValueError(f"{where}{name} has shape {table.shape}, not {shape}")


def sealed(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    array.setflags(write=False)
    return array


def record(cls: type[Any]) -> Any:
    """Field annotation for a frozen dataclass of numbers, arrays and keys, as core returns."""
    names, kinds = [f.name for f in dataclasses.fields(cls)], get_type_hints(cls)

    def load(value: Any) -> Any:
        if not isinstance(value, (cls, dict)):
            raise ValueError(f"a {cls.__name__} expected")
        content = value if isinstance(value, dict) else {n: getattr(value, n) for n in names}
        if set(content) != set(names):
            raise ValueError(f"a {cls.__name__} has the fields {names}")
        for name in names:
            if not _is_of(content[name], kinds[name]):
                raise ValueError(f"{name} of a {cls.__name__} is {content[name]!r:.40}")
        return cls(**{n: _record_value(v, kinds[n]) for n, v in content.items()})

    def dump(value: Any) -> dict[str, Any]:
        content = {n: getattr(value, n) for n in names}
        return {n: _record_json(v) for n, v in content.items()}

    shape = {"type": "object", "properties": {n: {} for n in names}, "required": names}
    return Annotated[
        cls, PlainValidator(load), PlainSerializer(dump, return_type=dict), WithJsonSchema(shape)
    ]


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value matches the type annotation of a dataclass field."""
    if get_origin(kind) in (Union, UnionType):
        return any(_is_of(value, one) for one in get_args(kind))
    if kind is type(None):
        return value is None
    if kind in (bool, str):
        return isinstance(value, (kind, np.bool_) if kind is bool else kind)
    if kind in (int, float):
        numbers = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if get_origin(kind) is tuple:
        return isinstance(value, (list, tuple))
    return isinstance(value, (list, np.ndarray))


def _record_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [group_keys.encode(key) for key in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _record_value(value: Any, kind: Any = None) -> Any:
    if get_origin(kind) is tuple:
        return _key_tuple(value)
    if isinstance(value, (list, np.ndarray)):
        return float_array(value)
    if isinstance(value, (int, float, np.integer, np.floating)) and not -LARGEST <= value <= LARGEST:
        raise ValueError(f"numbers must be finite, and no larger than {LARGEST:g}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a number expected, got {type(value).__name__}")


class ReadOnly(dict[_Key, _Value]):
    """A read-only dictionary."""

    refusal: ClassVar[str]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self.refusal)

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class Frozen(BaseModel):
    """Strict and frozen model without unknown fields or NaN."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
    )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.content() == other.content()

    def __str__(self) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return hash(storage.digest(self.content()))

    def content(self) -> dict[str, Any]:
        """The content as plain JSON values."""
        try:
            return self.model_dump(mode="json")
        except PydanticSerializationError as error:
            if isinstance(error.__cause__, FieldcalError):  # a key that JSON cannot hold: use our own message
                raise error.__cause__ from None
            raise


class Artefact(Frozen):
    """A frozen object with a file format."""

    kind: ClassVar[str]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content: equal content has equal digests."""
        return storage.digest(self.content())

    def to_json(self) -> bytes:
        """The bytes of the file; they depend on the content only."""
        content = self.content()
        envelope = {"fieldcal": self.kind, "schema": SCHEMA_VERSION, "digest": storage.digest(content)}
        return storage.canonical({**envelope, "content": content}) + b"\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file, atomically."""
        storage.as_path(path)
        storage.write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The object in a file that `save` wrote; raises `ArtefactError` if it is damaged or of another kind."""
        data, name = storage.read_bytes(path), os.path.basename(path)
        if storage.is_table(name):
            raise ArtefactError(
                f"{name} is a table, but a {cls.kind!r} was expected, a .json file that fieldcal wrote. Check the "
                "order of the files."
            )
        return cls.from_json(data, name=name)

    @classmethod
    def from_json(cls, data: bytes, *, name: str = "the artefact") -> Self:
        """The object from the bytes that `to_json` returned."""
        if not isinstance(data, (bytes, bytearray)):
            raise InputTypeError(f"data must be the bytes of an artefact, but got {type(data).__name__}.")
        try:
            return cls._from_envelope(storage.parse(data, name=name), name)
        except RecursionError:
            raise ArtefactError(
                f"{name} is nested deeper than any artefact: it is corrupt, or fieldcal did not write it."
            ) from None

    @classmethod
    def _from_envelope(cls, envelope: Any, name: str) -> Self:
        if not isinstance(envelope, dict) or set(envelope) != {"fieldcal", "schema", "digest", "content"}:
            raise ArtefactError(f"{name} is not a fieldcal artefact, or an unknown field was added to it.")
        if envelope["fieldcal"] != cls.kind:
            raise ArtefactError(
                f"{name} holds a {envelope['fieldcal']!r:.40}, but a {cls.kind!r} was expected. "
                "Check the order of the files."
            )
        if type(envelope["schema"]) is not int or not 1 <= envelope["schema"] <= SCHEMA_VERSION:
            raise ArtefactError(
                f"{name} has schema version {envelope['schema']!r:.40}, but this fieldcal reads up to "
                f"{SCHEMA_VERSION}. Upgrade fieldcal, or make the artefact again."
            )
        content = envelope["content"]
        if not _matches(content, envelope["digest"]):
            raise ArtefactError(f"{name} is corrupt: its content does not match its digest. Make it again.")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = group_keys.show(".".join(map(str, first["loc"])) or "the whole", width=80)
            what = group_keys.show(first["msg"].removeprefix("Value error, ").rstrip("."), width=250)
            raise ArtefactError(f"{name} is corrupt: {where}: {what}. Make it again.") from None


def _matches(content: Any, digest: object) -> bool:
    try:
        return storage.digest(content) == digest
    except ValueError:  # a number such as 1e999, which is infinite
        return False


#: An expected argument: an artefact of a class, or of one of several; or anything else, described in words.
Expected = type[Artefact] | tuple[type[Artefact], ...] | str


def check_call(call: str, *given: tuple[Any, Expected]) -> None:
    """Refuse arguments of the wrong type or in the wrong order.

    Parameters
    ----------
    call : the correct call, for the message
    *given : each argument with its expected type
    """
    if all(_fits(value, wanted) for value, wanted in given):
        return
    words, got = ([_word(wanted) for _, wanted in given], [type(value).__name__ for value, _ in given])
    order = ", in this order" if len(given) > 1 else ""
    absent = [kind.__name__ for kind in _kinds(given) if not any(isinstance(v, kind) for v, _ in given)]
    makers = "".join(f" A {name} comes from {MADE_BY[name]}." for name in absent if name in MADE_BY)
    raise InputTypeError(
        f"{call.partition('(')[0]} takes {' and '.join(words)}{order}, but got {' and '.join(got)}. Write {call}."
        f"{makers}"
    )


def _fits(value: Any, wanted: Expected) -> bool:
    return not isinstance(value, Artefact) if isinstance(wanted, str) else isinstance(value, wanted)


def _word(wanted: Expected) -> str:
    if isinstance(wanted, str):
        return wanted
    return " or ".join(f"a {kind.__name__}" for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))


def _kinds(given: tuple[tuple[Any, Expected], ...]) -> list[type[Artefact]]:
    return [wanted for _, wanted in given if isinstance(wanted, type)]
