"""Load apprise's plugin for an address, and no other: all of them together take 17 MB."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from retries.notifications.addresses.guard import refuse_files
from retries.notifications.addresses.parameters import check_parameters

# What a plugin's class says of its schemes, on one line or in a tuple of several. Some name them by
# attributes such as `kodi_protocol`.
SCHEMES = re.compile(r"^    \w*protocol\s*=\s*(\([^)]*\)|.*)", re.MULTILINE)
STRING = re.compile(r'"([a-z0-9]+)"')


@cache
def index_schemes() -> Mapping[str, str]:
    """Return the name of each scheme's plugin, read from the plugins' text."""
    # A loaded plugin says more exactly which schemes it has; see `find_plugin`.
    spec = find_spec("apprise.plugins")
    assert spec and spec.origin
    folder = Path(spec.origin).parent
    found = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).with_suffix("").parts[0]
        for said in SCHEMES.findall(path.read_text(encoding="utf-8")):
            found.update(dict.fromkeys(STRING.findall(said), name))
    return MappingProxyType(found)


@cache
def find_plugin(scheme: str) -> Any:
    name = index_schemes().get(scheme)
    if name is None:
        return None
    classes = vars(import_module(f"apprise.plugins.{name}")).values()
    return next((each for each in classes if scheme in schemes_of(each)), None)


def schemes_of(found: Any) -> set[str]:
    # Anything else in a plugin's module has no schemes.
    is_plugin = isinstance(found, type) and hasattr(found, "app_id") and hasattr(found, "schemas")
    return set(found.schemas(found)) if is_plugin else set()


def make_plugin(url: str, *, pointer: str = "/url") -> Any:
    """Return apprise's plugin for a URL, or None; raise Invalid for a forbidden parameter."""
    # `Apprise.instantiate` makes plugins too, after it has loaded all of them.
    plugin = find_plugin(url.partition("://")[0].strip().lower())
    # a plugin is off where a library or a program is missing that it needs
    if plugin is None or not plugin.enabled:
        return None
    with refuse_files():
        # a channel such as `#agents` is a part of the path here, and no fragment
        parts = plugin.parse_url(url.replace("/#", "/%23"))
        if not parts:
            return None
        check_parameters(plugin, parts.get("qsd", {}), pointer=pointer)
        try:
            made = plugin(**parts | {"tag": set(), "asset": make_asset()})
        except Exception:  # a plugin may raise anything
            return None
    return made if made.enabled else None


def make_asset() -> Any:
    # Plugins get no redirects, no images or logos, and no files of plugins.
    import apprise

    return apprise.AppriseAsset(
        app_id="Tenfour",
        app_desc="Tenfour",
        app_url="",
        http_redirects=False,
        image_url_mask="",
        image_url_logo="",
        pem_autogen=False,
        pgp_autogen=False,
        plugin_paths=[],
    )
