"""Render templates faster: shortcuts through Django's template engine for the common cases.

A page looks up a thousand variables. Django tries each name as a key first, with an exception for
every attribute, and asks of every text if it is a number or a date. Whatever is not a common case
goes to Django's own code, so that the pages stay the same to the byte. These overrides serve the
figures of pages in docs/performance.md.
"""

from html import escape
from typing import Any

from django.template.base import Variable, VariableNode, render_value_in_context
from django.template.context import Context
from django.template.loader_tags import IncludeNode, construct_relative_path
from django.utils.safestring import SafeString

resolve_lookup: Any = Variable._resolve_lookup  # type: ignore[attr-defined]
render_django_variable = VariableNode.render
render_include = IncludeNode.render


class Missing:
    """No value, where None can be one; a class, because classes are callable."""


# whether the values of a type may have keys
has_keys: dict[type, bool] = {}


def install() -> None:
    """Override the methods of Django's nodes."""
    overrides: Any = (
        (Variable, "_resolve_lookup", look_up),
        (VariableNode, "render", render_variable),
        (IncludeNode, "render", include),
    )
    for node, name, method in overrides:
        setattr(node, name, method)


def look_up(variable: Any, context: Any) -> Any:
    """Return a variable's value: a dictionary's value by its key, or an object's attribute."""
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


def render_variable(node: VariableNode, context: Context) -> str:
    """Return a variable's value as it stands in the page."""
    value = node.filter_expression.resolve(context)
    if isinstance(value, SafeString):
        return value
    if type(value) is str and context.autoescape:
        return SafeString(escape(value))
    return render_value_in_context(value, context)


def include(node: Any, context: Any) -> SafeString:
    """Render a template that is named by its path; keep it with the node."""
    name = node.template
    if name.is_var or name.filters or node.isolated_context:
        return render_include(node, context)
    template = vars(node).get("included")
    if template is None:
        path = construct_relative_path(node.origin.template_name, name.var)
        template = node.included = context.template.engine.get_template(path)
    values = {name: value.resolve(context) for name, value in node.extra_context.items()}
    with context.push(**values), context.render_context.push_state(template):
        rendered: SafeString = template.nodelist.render(context)
        return rendered
