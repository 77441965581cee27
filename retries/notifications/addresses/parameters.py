"""Decide which parameters an address of a service may have: those that it declares, but no files.

apprise opens the files that some parameters name, on the server, and sends what they hold.
"""

import re
from collections.abc import Iterable
from typing import Any

from ledger.errors import Invalid
from ledger.values.text import truncate

# what apprise reads without declaring it, of every address or of some services
UNDECLARED = {
    "app", "from", "icon", "id", "pass", "password", "port", "source", "tags", "threadkey", "to",
    "token", "user",
}  # fmt: skip
# a key may begin with one of these: it is a header or a field of the payload then
PREFIXES = "+-: "
FILE_NAME = re.compile(r"template|(?<!pro)file|attach|pgp|pem")
FILE_LABEL = re.compile(r"(?<!Webhook )\b(Path|File|KeyFile|Attach)$")
# templates that the service itself stores
OWN_LABEL = re.compile(r"\bID$|^Template( Name)?$")


def check_parameters(plugin: Any, given: Iterable[str], *, pointer: str) -> None:
    """Raise Invalid for a parameter that names a file or that a service does not declare."""
    # `given` has the names as apprise itself reads them, so no notation gets past this check.
    labels = label_parameters(plugin)
    prefixes = {each["prefix"] for each in plugin.template_kwargs.values()}
    for key in given:
        name = key.strip(PREFIXES).lower()
        shown = truncate(name, 40)
        if names_file(name, labels.get(name, "")):
            raise Invalid(pointer, f"The parameter '{shown}' would read a file of the server.")
        if key not in labels and key[:1] not in prefixes:
            raise Invalid(
                pointer,
                f"This service has no parameter '{shown}'. "
                "See https://appriseit.com/services/ for those that it has.",
            )


def label_parameters(plugin: Any) -> dict[str, str]:
    labels = dict.fromkeys(UNDECLARED, "")
    for each in reversed(plugin.__mro__):
        tokens = getattr(each, "template_tokens", {})
        for name, details in (tokens | getattr(each, "template_args", {})).items():
            named = details if "name" in details else tokens.get(details.get("alias_of"), {})
            labels[name] = str(named.get("name", ""))
    return labels


def names_file(name: str, label: str) -> bool:
    """Return whether a parameter's name or label says that its value is a file's path.

    >>> names_file("template", "Template Path"), names_file("template", "Template ID")
    (True, False)
    """
    if OWN_LABEL.search(label):
        return False
    return bool(FILE_NAME.search(name) or FILE_LABEL.search(label))
