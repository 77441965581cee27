"""A response's object is declared once: its schema, example, and writer agree."""

from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

import config.api  # noqa: F401 (it imports every shape)
from ledger.schemas.shapes import AGENT_ID, AT, ID, Part, Shape, example_of, field


class AuthorOut(Part):
    name: str = field("the author's name", "mara", source="author_name")
    at: datetime = field("when it was written", source=lambda row: row.times[-1])


class BookOut(Shape, example={"pages": 212}):
    id: UUID = field("the book's id")
    agent: str | None = field("the agent's name, or null", "coder", source="agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    note: str | None = field("a note, or null", empty_is_null=True)
    pages: int = field("number of pages", given=True)
    author: AuthorOut = field("who wrote it", source=".")
    editor: AuthorOut | None = field("who edited it, or null")
    readers: list[AuthorOut] = field("who read it")
    is_open: bool = field("true if it is open", default=False)


class KeyedOut(Part, keyed=True):
    id: UUID = field("its id")
    state: str = field("its state", "open", source="state_name")


AUTHOR = SimpleNamespace(author_name="mara", times=[1, 2])


def make_book(**values: Any) -> SimpleNamespace:
    base = {"id": 7, "agent": SimpleNamespace(name="coder"), "agent_id": 8, "note": "new"}
    more = {"author_name": "kim", "times": [3], "editor": AUTHOR, "readers": [AUTHOR, AUTHOR]}
    return SimpleNamespace(**base | more | {"is_open": True} | values)


def test_a_writer_reads_each_field_from_its_source() -> None:
    mara, kim = {"name": "mara", "at": 2}, {"name": "kim", "at": 3}
    assert BookOut.write(make_book(), pages=3) == {
        "id": 7,
        "agent": "coder",
        "agent_id": 8,
        "note": "new",
        "pages": 3,
        "author": kim,
        "editor": mara,
        "readers": [mara, mara],
        "is_open": True,
    }


def test_a_path_ends_at_none_and_an_empty_text_is_null_where_the_field_says_so() -> None:
    written = BookOut.write(make_book(agent=None, note="", editor=None, readers=[]), pages=0)
    assert [written[name] for name in ("agent", "note", "editor", "readers", "pages")] == [
        None,
        None,
        None,
        [],
        0,
    ]


def test_a_keyed_shape_reads_a_dictionary() -> None:
    assert KeyedOut.write({"id": 1, "state_name": "done"}) == {"id": 1, "state": "done"}


def test_an_example_is_made_of_the_examples_of_the_fields() -> None:
    author = {"name": "mara", "at": AT}
    example = {
        "id": ID,
        "agent": "coder",
        "agent_id": AGENT_ID,
        "note": None,
        "pages": 212,
        "author": author,
        "editor": author,
        "readers": [author],
    }
    assert example_of(BookOut) == example == BookOut.model_json_schema()["example"]
    assert "example" not in AuthorOut.model_json_schema()
    assert BookOut.model_json_schema()["properties"]["agent_id"]["description"] == "the agent's id"
    assert "is_open" not in BookOut.model_json_schema()["required"]


def shapes(base: type[Part] = Part) -> Iterator[type[Part]]:
    for shape in base.__subclasses__():
        yield shape
        yield from shapes(shape)


@pytest.mark.parametrize("shape", sorted(set(shapes()), key=repr), ids=lambda each: each.__name__)
def test_the_example_of_every_shape_is_valid_and_complete(shape: type[Part]) -> None:
    example = example_of(shape)
    shape.model_validate(example)
    fields = shape.model_fields
    assert {name for name in fields if fields[name].is_required()} <= set(example) <= set(fields)
