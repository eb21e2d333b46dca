"""Python callables that a query imports, and the conversion of their arguments and results.

    bool int/long float/double string    bool int float str
    date timestamp                       datetime.date datetime.datetime, in UTC and without a time zone
    any                                  JSON in Python: dict list str bool int float None
    XML                                  its text; a callable cannot return XML
    (t, …)  <A: t>                       tuple  dict
    [t]  {t}                             list

A result must be of the declared type: it is not converted, but an integer is also accepted as a double, and any
iterable as a collection. With a missing argument the result is missing, unless the annotation of the parameter admits
None. A callable is assumed to return the same for the same arguments.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.evaluation import python_modules
from mrql.algebra.evaluation.python_errors import said_of
from mrql.algebra.evaluation.recursive_functions import PythonFunction, takes
from mrql.algebra.functions.function import Version
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import INT_RANGES
from mrql.algebra.values.atom_text import to_single, unsigned
from mrql.algebra.values.decimals import exactly
from mrql.algebra.values.json_values import as_python, of_python
from mrql.algebra.values.values import Bag, Document, Record, Value
from mrql.algebra.values.xml_elements import to_xml


class NotFound(Exception):
    """A module or a callable is not there, or cannot be imported."""


class NoModule(NotFound):
    """There is no module of that name."""


@attrs.frozen
class Callee:
    """The location of a callable: a module, searched for in a directory first, and a name in it."""

    module: str
    attribute: str
    directory: str

    def loaded(self) -> Callable[..., Any]:
        """The callable.

        Raises: NotFound.
        """
        return _loaded(self)


@attrs.frozen
class Imported(PythonFunction):
    """An imported callable with its type. `optional` has the places of the parameters that accept None."""

    callee: Callee = attrs.field(kw_only=True)
    signature: Exact = attrs.field(kw_only=True)
    optional: frozenset[int] = attrs.field(kw_only=True, repr=False)

    @property
    def reason(self) -> str:
        return f"it is imported from {self.callee.module}"

    @property
    def digest(self) -> str:
        """Identifies the callable, and the contents of its files when they were read."""
        return f"{self.callee.module}:{self.callee.attribute} {self.signature} {_written(self.callee)}"


def imported(name: str, callee: Callee, signature: Exact, optional: frozenset[int]) -> Imported:
    """The function of the algebra that calls a callable."""

    def apply(*args: Value) -> Value:
        return called(name, callee, signature, optional, args)

    return Imported(
        name,
        (Version(signature, apply, None),),
        takes(signature.params),
        null_safe=True,
        callee=callee,
        signature=signature,
        optional=optional,
    )


def called(name: str, callee: Callee, signature: Exact, optional: frozenset[int], args: tuple[Value, ...]) -> Value:
    """The result of a callable for some values.

    Raises: EvaluationError if it fails, or returns a value of another type.
    """
    if any(arg is None and i not in optional for i, arg in enumerate(args)):
        return None
    try:
        function = callee.loaded()
        given = function(*map(to_python, args, signature.params))
        return from_python(given, signature.result)
    except _OtherType as error:
        shown = repr(error.value) if len(repr(error.value)) <= 60 else f"{repr(error.value)[:59]}…"
        raise EvaluationError(f"`{name}` gave {shown}, which is no value of type {error.type}") from None
    except NotFound as error:
        raise EvaluationError(str(error)) from None
    except (Exception, SystemExit) as error:
        raise EvaluationError(f"`{name}` failed: {said_of(error)}") from error


# --- finding them -------------------------------------------------------------------------------


def module_of(name: str, directory: str) -> ModuleType:
    """A module, searched for in a directory first, and then on Python's path.

    Raises: NotFound.
    """
    first = name.partition(".")[0]
    here = importlib.machinery.PathFinder.find_spec(first, [directory]) is not None
    if here and not _is_from(sys.modules.get(first), directory):
        for known in [known for known in sys.modules if known == first or known.startswith(f"{first}.")]:
            del sys.modules[known]
    sys.path.insert(0, directory)
    try:
        importlib.invalidate_caches()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoModule(f"there is no module `{name}`") from None
        raise NotFound(f"the module `{name}` cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise NotFound(f"the module `{name}` cannot be imported: {said_of(error)}") from error
    finally:
        sys.path.remove(directory)
        if directory not in sys.path:
            sys.path.append(directory)  # for its later imports


def _is_from(module: ModuleType | None, directory: str) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(directory).resolve() in Path(file).resolve().parents


@cache
def _loaded(callee: Callee) -> Callable[..., Any]:
    found: Any = module_of(callee.module, callee.directory)
    for name in callee.attribute.split("."):
        if not hasattr(found, name):
            raise NotFound(f"the module `{callee.module}` has no `{callee.attribute}`")
        found = getattr(found, name)
    if not callable(found):
        raise NotFound(f"`{callee.attribute}` of the module `{callee.module}` cannot be called")
    return found  # type: ignore[no-any-return]


@cache
def _written(callee: Callee) -> str:
    """A digest of the named module, of the one in which the callable is defined, and of all that these import."""
    try:
        function = _loaded(callee)
    except NotFound:
        return ""
    defined = getattr(function, "__module__", None) or callee.module
    return python_modules.written(sorted({callee.module, defined}), callee.directory)


# --- conversion ---------------------------------------------------------------------------------


def to_python(value: Value, t: Type) -> Any:
    """A value as the argument of a callable."""
    match t:
        case _ if value is None:
            return None
        case ty.Basic(ty.Kind.XML):
            return to_xml(value)
        case ty.TupleType(items):
            return tuple(map(to_python, value, items))
        case ty.RecordType(fields):
            return {name: to_python(value[name], item) for name, item in fields}
        case ty.BagType(item) | ty.ListType(item):
            return [to_python(part, item) for part in value]
        case _ if isinstance(value, Document):
            return as_python(value)
        case _:
            return unsigned(value) if isinstance(value, float) else value


class _OtherType(Exception):
    def __init__(self, value: Any, t: Type) -> None:
        super().__init__()
        self.value = value
        self.type = t


def from_python(value: Any, t: Type) -> Value:
    """The result of a callable, as a value of its declared type."""
    match t:
        case _ if value is None:
            return None
        case ty.Basic():
            return _atom(value, t)
        case ty.TupleType(items) if isinstance(value, tuple | list) and len(value) == len(items):
            return tuple(map(from_python, value, items))
        case ty.RecordType(fields) if isinstance(value, Mapping) and {*value} == {*t.names}:
            return Record({name: from_python(value[name], item) for name, item in fields})
        case ty.BagType(item) if _is_collection(value):
            return Bag(from_python(part, item) for part in value)
        case ty.ListType(item) if _is_collection(value):
            return [from_python(part, item) for part in value]
    raise _OtherType(value, t)


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _atom(value: Any, t: ty.Basic) -> Value:
    """An atom; numbers may be of other classes than Python's, such as numpy's."""
    match t.kind:
        case ty.Kind.ANY:
            try:
                return of_python(value)
            except (TypeError, ValueError):
                raise _OtherType(value, t) from None
        case ty.Kind.BOOL if isinstance(value, bool) or type(value).__name__ == "bool":
            return bool(value)
        case ty.Kind.STRING if isinstance(value, str):
            return str(value)
        case ty.Kind.BINARY if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        case ty.Kind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case ty.Kind.TIMESTAMP if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        case ty.Kind.INT | ty.Kind.LONG if not _is_bool(value) and hasattr(value, "__index__"):
            low, high = INT_RANGES[t]
            if low <= (number := operator.index(value)) <= high:
                return number
        case ty.Kind.DECIMAL if isinstance(t, ty.DecimalType) and isinstance(value, int | Decimal):
            if not _is_bool(value) and (exact := exactly(value, t)) is not None:
                return exact
        case ty.Kind.FLOAT | ty.Kind.DOUBLE if _is_number(value):
            with suppress(OverflowError):  # for an integer larger than all doubles
                return to_single(value) if t == ty.FLOAT else float(value)
    raise _OtherType(value, t)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool"


def _is_number(value: Any) -> bool:
    return not _is_bool(value) and not isinstance(value, str | bytes) and hasattr(value, "__float__")
