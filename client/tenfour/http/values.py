"""Values read from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value read from JSON: unknown fields are only in `raw`, missing ones have defaults."""

    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, data: Json) -> Self:
        known = [column for column in fields(cls) if column.name in data and column.name != "raw"]
        return cls(
            raw=data, **{column.name: _reader(column)(data[column.name]) for column in known}
        )

    @classmethod
    def read_all(cls, rows: list[Json]) -> tuple[Self, ...]:
        return tuple(cls.read(row) for row in rows)


def _reader(column: Field[Any]) -> Callable[[Any], Any]:
    default = instant if column.name.endswith("_at") else _identity
    reader: Callable[[Any], Any] = column.metadata.get("read", default)
    return reader


def instant(value: str | None) -> datetime | None:
    """Parse a time of the API; Python 3.10 does not know the Z of UTC."""
    if not value:
        return None
    return datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)


def text_of_time(value: datetime | str) -> str:
    return value.isoformat() if isinstance(value, datetime) else value


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class LogPiece:
    """The lines that were added to a log, where they end, and whether there are more now."""

    text: str
    cursor: str
    has_more: bool


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list."""

    data: tuple[T, ...]
    next_cursor: str | None = None
