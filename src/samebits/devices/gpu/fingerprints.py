"""What recorded launches depend on, as keys that are derived from values (device.py, `replay`).

Equal fingerprints mean equal values, type for type and bit for bit; arrays on a device are equal where they are the
same memory with the same shape and dtype. A value of any other kind is refused: nothing can be left out by mistake.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel

from samebits.arithmetic.arrays import Array, frozen
from samebits.devices.gpu.arrays import DeviceArray, Packed

T = TypeVar("T")


class Frozen(Generic[T]):
    """A value whose fingerprint is computed once. Its arrays become read-only."""

    def __init__(self, value: T) -> None:
        self.value, self.digest = frozen(value), digest_of(fingerprint(value))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and other.digest == self.digest


def digest_of(key: Hashable) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def digest_of_array(value: Array) -> str:
    content = hashlib.sha256(value.tobytes()).hexdigest()
    return digest_of((value.dtype.str, value.shape, content))


_known: dict[int, tuple[weakref.ref[Any], Hashable]] = {}  # by id, of objects that cannot change and are still alive


def _once(value: Any, compute: Callable[[Any], Hashable]) -> Hashable:
    """What `compute` returns for a value that cannot change; computed once for each object."""
    name = id(value)
    entry = _known.get(name)
    if entry is not None and entry[0]() is value:
        return entry[1]
    found = compute(value)
    _known[name] = weakref.ref(value, lambda _: _known.pop(name, None)), found
    return found


def _of_array(value: Array) -> Hashable:
    return _once(value, digest_of_array) if is_constant(value) else _content(value)


def is_constant(value: Any) -> bool:
    """Whether nobody can write to the array, neither by itself nor by the array that it is a view of."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    return value is None or isinstance(value, bytes)


def _content(value: Array) -> Hashable:
    return np.ndarray, value.dtype.str, value.shape, value.tobytes()


def _of_tuple(value: tuple[Any, ...]) -> Hashable:
    return type(value), *[FINGERPRINTS[type(item)](item) for item in value]


def _of_mapping(value: Mapping[str, Any]) -> Hashable:
    return dict, tuple(value), *[FINGERPRINTS[type(item)](item) for item in value.values()]


def _of_config(value: BaseModel) -> Hashable:
    return _once(value, _fields_of_config)


def _fields_of_config(value: BaseModel) -> Hashable:
    values = {name: getattr(value, name) for name in type(value).model_fields}
    for name, item in values.items():
        if isinstance(item, dict | np.ndarray):
            raise TypeError(f"{name} of a config can be changed in place; make it a tuple")
    return digest_of((type(value), fingerprint(values)))


def _of_dataclass(value: Any) -> Hashable:
    return type(value), *[fingerprint(getattr(value, field.name)) for field in fields(value)]


class _ByType(dict[type, Callable[[Any], Hashable]]):
    """How values of a type are told apart; that of a record is looked up once, by what kind of record it is."""

    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        found: Callable[[Any], Hashable]
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            found = _of_tuple
        elif issubclass(kind, np.generic):
            found = _of_scalar
        elif issubclass(kind, BaseModel) and kind.model_config.get("frozen"):
            found = _of_config
        elif is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            found = _of_dataclass
        else:
            raise TypeError(
                f"a value of type {kind.__qualname__} has no fingerprint; pass numbers, strings, arrays, and tuples, "
                "mappings, named tuples, frozen dataclasses or frozen configs of them"
            )
        self[kind] = found
        return found


def _same(value: Any) -> Hashable:
    return value


def _of_scalar(value: np.generic) -> Hashable:
    return type(value), value.tobytes()


def _with_type(value: Any) -> Hashable:
    return type(value).__name__, value


FINGERPRINTS = _ByType({
    int: _same, str: _same, type(None): _same, bytes: _same,
    bool: _with_type,  # True == 1
    float: lambda value: ("float", value.hex()),  # 0.0 == -0.0
    tuple: _of_tuple,
    dict: _of_mapping,
    np.ndarray: _of_array,
    DeviceArray: lambda value: value.fingerprint,
    Packed: lambda value: value.fingerprint,
    Frozen: lambda value: (Frozen, value.digest),
})  # fmt: skip


def fingerprint(value: Any) -> Hashable:
    """Equal for equal values; raises a TypeError for those whose equality is not known."""
    return FINGERPRINTS[type(value)](value)
