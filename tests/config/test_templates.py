"""The shortcuts through Django's template engine."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from django.template import Context, Engine, Template
from django.template.context import RequestContext
from django.test import RequestFactory
from django.urls import NoReverseMatch
from django.utils.safestring import mark_safe

from config.rendering import templates

Pair = namedtuple("Pair", "first second")


@dataclass
class Thing:
    name: str = "<b>"
    items: str = "attribute"

    @property
    def broken(self) -> str:
        raise AttributeError("in a property")

    def call(self) -> str:
        return "called & escaped"

    def needs(self, argument: str) -> str:
        return argument

    def change(self) -> str:
        raise AssertionError("a template called it")

    change.alters_data = True  # type: ignore[attr-defined]


VALUES: dict[str, Any] = {
    "text": "a < b & 'c' \"d\"",
    "safe": mark_safe("<i>"),
    "number": 1234567,
    "fraction": 0.5,
    "decimal": Decimal("10.50"),
    "true": True,
    "none": None,
    "thing": Thing(),
    "kind": Thing,
    "function": lambda: {"name": "<u>"},
    "pair": Pair("<1>", 2),
    "words": ["<x>", "y"],
    "row": {"name": "<r>", "items": "<key>", "0": "zero", "none": None, "keys": lambda: "k"},
    "ordered": OrderedDict(name="<o>"),
    "empty": "",
    "id": UUID(int=7),
}
NAMES = [
    *VALUES,
    *(f"{name}.{more}" for name in VALUES for more in ("name", "items", "0", "first", "call")),
    *("thing.needs", "thing.change", "thing.name.upper", "row.none.name", "row.keys", "row.values"),
    *("missing", "missing.name", "thing.missing.name", "function.name", "words.0", "pair.1"),
    *("True", "None", "forloop.counter", '"literal <"', "3", "forloop.parentloop.counter"),
]
SOURCES = [
    "{{ NAME }}",
    "{{ NAME|default:'none <' }}",
    "{% autoescape off %}{{ NAME }}{% endautoescape %}",
    "{% if NAME %}yes{% else %}no{% endif %}",
    "{% for each in words %}{{ NAME }}{{ forloop.counter }}{{ each }}{% endfor %}",
    "{% with number=NAME %}{{ number }}{% include 'part.html' with text=NAME %}{% endwith %}",
    "{% include 'part.html' with text=NAME only %}{% include part with text=NAME %}",
    "{% for each in words %}{% include 'part.html' %}{% endfor %}",
    "{% url 'dashboard:task' id %}{% url 'dashboard:home' %}{% url 'dashboard:task' id=NAME as at %}{{ at }}",
    "{% querystring a=text b=id %}{% querystring a=text as link %}{{ link }}{{ NAME }}",
    "{% url 'dashboard:plan_by_ref' text %}{% url 'dashboard:task_act' id 'retry' %}",
]
PARTS = {
    "part.html": "[{{ text }}{{ number }}{% include './deep.html' %}]{% cycle 'a' 'b' %}",
    "deep.html": "({{ text.upper }}{{ each }})",
    "base.html": "{% block one %}base{% endblock %}{% include 'child.html' %}",
    "child.html": "{% extends 'parent.html' %}{% block one %}child {{ text }}{% endblock %}",
    "parent.html": "<{% block one %}parent{% endblock %}>",
}


def render_all() -> list[str]:
    loaders = [("django.template.loaders.locmem.Loader", PARTS)]
    engine = Engine(loaders=loaders)
    request = RequestFactory().get("/")
    rendered = []
    for source in SOURCES:
        for name in NAMES:
            template = Template(source.replace("NAME", name), engine=engine)
            for context in (Context, lambda values: RequestContext(request, values)):
                try:
                    rendered.append(template.render(context({"part": "part.html"} | VALUES)))
                except (AttributeError, NoReverseMatch) as error:
                    rendered.append(repr(error))
    child = engine.get_template("base.html")
    return [*rendered, child.render(Context(VALUES)), child.render(Context(VALUES))]


def test_the_shortcuts_render_what_django_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = render_all()
    for (node, name), method in templates.overrides.items():
        assert vars(node)[name] is method
        monkeypatch.setattr(node, name, templates.originals[node, name])
    assert ours == render_all()


def test_a_property_that_fails_is_reported() -> None:
    with pytest.raises(AttributeError, match="in a property"):
        Template("{{ thing.broken }}").render(Context(VALUES))


LINKS = (
    "{% querystring %}",
    "{% querystring q='state:failed agent:\"a b\"' %}",
    "{% querystring before=None page=id %}",
    "{% querystring given a=None %}",
    "{% querystring given a=number b=items %}",
    "{% querystring given q='' as link %}{{ link }}",
)


@pytest.mark.parametrize("query", ["", "q=a%26b&q=c&before=1", "page=%C3%A4"])
@pytest.mark.parametrize("given", ["", "a=1&a=2&c=<"])
@pytest.mark.parametrize("link", LINKS)
def test_links_have_the_query_of_djangos_tag(link: str, given: str, query: str) -> None:
    request = RequestFactory().get(f"/?{query}")
    values = {
        "request": request,
        "given": QueryDict(given),
        "id": UUID(int=7),
        "number": 3,
        "items": ["x y", "<z>"],
    }
    ours, theirs = (
        Template(link, engine=engine).render(RequestContext(request, values))
        for engine in (Engine.get_default(), Engine())
    )
    assert ours == theirs
