"""Shapes: response objects whose fields are declared once.

A field's line has its type, description, example, and source; from these come the API's schema,
the example in its description, and the function that writes the object from a row:

    class LetterOut(Shape):
        id: UUID = field("the dead letter's id")
        agent: str = field("the agent's name", "coder", source="agent.name")

    LetterOut.write(letter)  # {"id": letter.id, "agent": letter.agent.name}
"""

from collections.abc import Callable
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

# Values of examples.
ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
AGENT_ID = "01a1fe6d-9af5-7be0-83ca-c63e43309669"
AT = "2026-11-21T14:05:58.436Z"
BY_TYPE: dict[Any, Any] = {UUID: ID, datetime: AT, bool: False, int: 0, str: "", list: [], dict: {}}
DERIVED: Any = object()

Source = str | Callable[[Any], Any]


class Declared(NamedTuple):
    """The part of a field's declaration that pydantic does not know."""

    example: Any = DERIVED
    source: Source = ""
    empty_is_null: bool = False
    given: bool = False


def field(
    description: str,
    example: Any = DERIVED,
    *,
    source: Source = "",
    empty_is_null: bool = False,
    given: bool = False,
    default: Any = ...,
) -> Any:
    """Declare a field of a shape.

    Without an `example`, it is the example of the nested shape, null, or a usual value of the type.
    `source` is the path of a row's attribute, by default the field's name, "." for the row itself,
    or a function of the row. The path of a field that may be null ends at None; `empty_is_null`
    writes an empty text as null. A field that is `given` is an argument of `write`, as JSON. A
    field with a `default` may be missing, and is missing in the example.
    """
    info: FieldInfo = Field(default, description=description)
    info.metadata.append(Declared(example, source, empty_is_null, given))
    return info


def add_example(schema: dict[str, Any], cls: type[BaseModel]) -> None:
    if example := example_of(cls):
        schema["example"] = example


def example_of(cls: type[BaseModel]) -> dict[str, Any]:
    given: dict[str, Any] = getattr(cls, "given_example", {})
    if not issubclass(cls, Part):
        return given
    example = {}
    for name, info in cls.model_fields.items():
        declared = find_declared(info).example
        if declared is not DERIVED:
            example[name] = declared
        elif info.is_required() and name not in given:
            example[name] = derive_example(info.annotation)
    return example | given


def find_declared(info: FieldInfo) -> Declared:
    return next((each for each in info.metadata if isinstance(each, Declared)), Declared())


def derive_example(annotation: Any) -> Any:
    if nested := find_part(annotation):
        example = example_of(nested)
        return [example] if get_origin(annotation) is list else example
    if is_nullable(annotation):
        return None
    return BY_TYPE[get_origin(annotation) or annotation]


def is_nullable(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def find_part(annotation: Any) -> "type[Part] | None":
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Part):
            return each
    return None


def compile_writer(cls: "type[Part]") -> Callable[..., dict[str, Any]]:
    # It is compiled once, as the methods of a dataclass are: a loop over the fields at each call
    # takes three times as long.
    names: dict[str, Any] = {}
    parameters, items = ["row"], []
    for name, info in cls.model_fields.items():
        declared = find_declared(info)
        value = name if declared.given else write_source(declared, name, info, cls.keyed, names)
        if declared.given:
            parameters += [name] if "*" in parameters else ["*", name]
        elif nested := find_part(info.annotation):
            value = write_nested(value, name, nested, info, names)
        items.append(f"{name!r}: {value}")
    code = f"def write({', '.join(parameters)}): return {{{', '.join(items)}}}"
    exec(compile(code, f"<writer of {cls.__name__}>", "exec"), names)  # noqa: S102
    writer: Callable[..., dict[str, Any]] = names["write"]
    return writer


def write_source(
    declared: Declared, name: str, info: FieldInfo, keyed: bool, names: dict[str, Any]
) -> str:
    if declared.source == ".":
        return "row"
    if not isinstance(declared.source, str):
        names[f"source_{name}"] = declared.source
        return f"source_{name}(row)"
    first, *rest = (declared.source or name).split(".")
    value = f"row[{first!r}]" if keyed else f"row.{first}"
    for each in rest:
        value = f"({value}).{each}"
    if rest and is_nullable(info.annotation):
        before = value.rpartition(".")[0]
        value = f"({value} if {before} is not None else None)"
    return f"({value} or None)" if declared.empty_is_null else value


def write_nested(
    value: str, name: str, nested: "type[Part]", info: FieldInfo, names: dict[str, Any]
) -> str:
    write = f"write_{name}"
    names[write] = nested.write
    if get_origin(info.annotation) is list:
        return f"[{write}(each) for each in {value}]"
    if is_nullable(info.annotation):
        return f"({write}(value) if (value := {value}) is not None else None)"
    return f"{write}({value})"


class Exampled(BaseModel):
    """A schema with an example in the API's description.

    The argument `example` of the class has the values that its fields do not declare.
    """

    model_config = ConfigDict(json_schema_extra=add_example)

    given_example: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, example: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.given_example = cls.given_example | (example or {})


class Part(Schema):
    """A shape without an example of its own in the API's description: others contain it.

    The rows of a `keyed` shape are dictionaries.
    """

    write: ClassVar[Callable[..., dict[str, Any]]]
    keyed: ClassVar[bool] = False

    def __init_subclass__(cls, *, keyed: bool | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.keyed = cls.keyed if keyed is None else keyed

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__()
        cls.write = staticmethod(compile_writer(cls))


class Shape(Part, Exampled):
    """A shape that is a response, or an item of a page."""
