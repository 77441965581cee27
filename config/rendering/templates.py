"""Render templates faster: shortcuts through Django's template engine for the common cases.

A page looks up a thousand variables. Django tries each name as a key first, with an exception for
every attribute, and asks of every text if it is a number or a date. Other cases go to Django's own
code, so that the pages stay the same to the byte. These overrides serve the figures of pages in
docs/performance.md.
"""

from functools import cache
from html import escape
from typing import Any
from uuid import UUID

from django.template.base import (
    FilterExpression,
    Variable,
    VariableDoesNotExist,
    VariableNode,
    render_value_in_context,
)
from django.template.context import Context
from django.template.defaulttags import URLNode
from django.template.library import SimpleNode
from django.template.loader_tags import IncludeNode, construct_relative_path
from django.urls import get_script_prefix, reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

resolve_lookup: Any = Variable._resolve_lookup  # type: ignore[attr-defined]


class Missing:
    """No value, where None can be one; a class, because classes are callable."""


# whether the values of a type may have keys
has_keys: dict[type, bool] = {}


def look_up(variable: Any, context: Any) -> Any:
    names = variable.lookups
    name = names[0]
    current: Any = Missing
    for layer in reversed(context.dicts):
        if name in layer:
            current = layer[name]
            break
    if callable(current):  # a function, a form's method, or Missing
        return resolve_lookup(variable, context)
    for name in names[1:]:
        kind = type(current)
        if kind not in has_keys:
            has_keys[kind] = hasattr(kind, "__getitem__")
        if not has_keys[kind]:
            current = getattr(current, name, Missing)
        elif kind is dict:
            current = current.get(name, Missing)
        else:
            return resolve_lookup(variable, context)
        if callable(current):
            return resolve_lookup(variable, context)
    return current


def resolve(expression: Any, context: Any, ignore_failures: bool = False) -> Any:
    # A variable without filters is looked up at once.
    if expression.is_var and not expression.filters:
        variable = expression.var
        if variable.lookups is not None and not variable.translate:
            try:
                return look_up(variable, context)
            except VariableDoesNotExist:
                if ignore_failures:
                    return None
    return originals[FilterExpression, "resolve"](expression, context, ignore_failures)


def render_variable(node: VariableNode, context: Context) -> str:
    value = resolve(node.filter_expression, context)
    if isinstance(value, SafeString):
        return value
    kind = type(value)
    if kind is str and context.autoescape:
        return SafeString(escape(value))
    if kind is int or kind is UUID:  # the settings ask for no thousands separator
        return str(value)
    return render_value_in_context(value, context)


def include(node: Any, context: Any) -> str:
    # The template stays with the node, so it is looked up only once.
    name = node.template
    if name.is_var or name.filters or node.isolated_context:
        rendered: str = originals[IncludeNode, "render"](node, context)
        return rendered
    template = vars(node).get("included")
    if template is None:
        path = construct_relative_path(node.origin.template_name, name.var)
        template = node.included = context.template.engine.get_template(path)
    state = context.render_context
    caller = state.template
    context.dicts.append(
        {name: resolve(each, context) for name, each in node.extra_context.items()}
    )
    state.push()
    state.template = template
    try:
        rendered = template.nodelist.render(context)
        return rendered
    finally:
        state.template = caller
        state.pop()
        context.dicts.pop()


def render_tag(node: Any, context: Any) -> Any:
    if type(node) is not SimpleNode:  # a tag with a block
        return originals[SimpleNode, "render"](node, context)
    # Most tags return text that is safe already.
    args = [resolve(each, context) for each in node.args]
    named = {name: resolve(each, context) for name, each in node.kwargs.items()}
    output = node.func(context, *args, **named) if node.takes_context else node.func(*args, **named)
    if node.target_var is not None:
        context[node.target_var] = output
        return ""
    if type(output) is SafeString or not context.autoescape:
        return output
    return conditional_escape(output)


def render_url(node: Any, context: Any) -> str:
    name = node.view_name.var
    if not node.kwargs and not node.asvar and str(name).startswith("dashboard:"):
        ids = [resolve(each, context) for each in node.args]
        if not ids:
            return find_url(name, get_script_prefix())[0]
        if len(ids) == 1 and type(ids[0]) is UUID:
            before, after = find_url(name, get_script_prefix(), with_id=True)
            return f"{before}{ids[0]}{after}"
    rendered: str = originals[URLNode, "render"](node, context)
    return rendered


@cache
def find_url(name: str, prefix: str, *, with_id: bool = False) -> tuple[str, str]:
    """Return the parts before and after the id in a page's URL under a path prefix."""
    id = UUID(int=0)
    before, _, after = reverse(name, args=[id] if with_id else None).partition(str(id))
    return escape(before), escape(after)


overrides: dict[tuple[Any, str], Any] = {
    (Variable, "_resolve_lookup"): look_up,
    (FilterExpression, "resolve"): resolve,
    (VariableNode, "render"): render_variable,
    (IncludeNode, "render"): include,
    (URLNode, "render"): render_url,
    (SimpleNode, "render"): render_tag,
}
originals = {(node, name): getattr(node, name) for node, name in overrides}


def install() -> None:
    for (node, name), method in overrides.items():
        setattr(node, name, method)
