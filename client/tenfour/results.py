"""Results as values: `Ok` with a value, `Err` with the text of an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar, Union

T = TypeVar("T")


@dataclass(frozen=True)
class Ok(Generic[T]):
    """A success: `case Ok(data)`."""

    value: T


@dataclass(frozen=True)
class Err:
    """A failure: `case Err(error)`, the error's text. `cause` is its exception, if it had one."""

    error: str
    cause: BaseException | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class ChangedVerb(Err):
    """The fix does something else than the command: `args` run only once they are confirmed."""

    args: tuple[str, ...] = ()

    __match_args__ = ("error",)


# What Python 3.10 accepts as an alias with a parameter.
Result = Union[Ok[T], Err]  # noqa: UP007
