"""The files and addresses that a rule's matcher names (pure).

A path is compared as text: whether a name in it is a symbolic link cannot be known on the server.
"""

from collections.abc import Sequence
from itertools import pairwise

# Settings of agents and tools, with which a program can be made to run another one, and secrets.
# A matcher may name one with all that begins so, as in `.env*`; other hidden files only alone.
PROTECTED = (".git", ".env", ".claude", ".codex", ".ssh", ".aws", ".npmrc", ".netrc", ".pypirc")
SECRET_NAMES = frozenset(
    {"credentials", "credentials.json", "secrets.json", "secrets.yaml", "secrets.yml"}
    | {"secrets.toml", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
)
SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".jks", ".keystore")
# `./...` names all packages of Go.
NO_NAMES = frozenset({".", "..."})


def is_guarded(name: str) -> bool:
    """Return whether only a matcher that spells a file's name out may match it.

    >>> [is_guarded(name) for name in (".git", ".eslintrc", "id_rsa", "src", "...")]
    [True, True, True, False, False]
    """
    lower = name.casefold()
    is_hidden = lower.startswith(".") and lower not in NO_NAMES
    return is_hidden or lower in SECRET_NAMES or lower.endswith(SECRET_ENDS)


def find_parts(path: str, folder: str) -> tuple[str, ...] | None:
    """Return the names of a path below the folder; None outside of it.

    >>> find_parts("/srv/app/./src/a.py", "/srv/app"), find_parts("src/../a.py", "/srv/app")
    (('src', 'a.py'), None)
    """
    if not path or not path.isprintable() or "\\" in path or path.startswith(("~", "//")):
        return None
    names = path.split("/")
    if ".." in names:
        return None
    parts = tuple(name for name in names if name not in ("", "."))
    if not path.startswith("/"):
        return parts
    above = tuple(name for name in folder.split("/") if name not in ("", "."))
    is_below = folder.startswith("/") and above and ".." not in above
    return parts[len(above) :] if is_below and parts[: len(above)] == above else None


def check_glob(glob: str) -> str:
    """Return what is wrong with a glob of an allow rule; empty if nothing is.

    >>> check_glob("src/**"), check_glob("src/**.py")
    ('', 'Write `**` as a name of its own, such as `src/**` or `**/tests/*.py`.')
    """
    names = glob.split("/")
    if not glob.isprintable() or "\\" in glob or set("{}") & set(glob):
        return "Write a path with `/`, `*`, `?` and `**` only, such as `src/**`."
    if not glob or glob[0] in "/~" or {"", ".", ".."} & set(names):
        return (
            "Name files inside the folder, such as `src/**`, without a leading slash and"
            " without `..`."
        )
    if any("**" in name and name != "**" for name in names):
        return "Write `**` as a name of its own, such as `src/**` or `**/tests/*.py`."
    if any(first == second == "**" for first, second in pairwise(names)):
        return "Write `**` once."
    return ""


def matches_glob(names: Sequence[str], parts: Sequence[str], *, allow: bool) -> bool:
    """Return whether a glob's names match a path's; `**` is any number of names."""
    at = glob_at = 0
    star = mark = -1
    while at < len(parts):
        if glob_at < len(names) and names[glob_at] == "**":
            star, mark, glob_at = glob_at, at, glob_at + 1
        elif glob_at < len(names) and matches_name(names[glob_at], parts[at], allow=allow):
            at, glob_at = at + 1, glob_at + 1
        elif star >= 0 and not (allow and is_guarded(parts[mark])):
            mark += 1
            at, glob_at = mark, star + 1
        else:
            return False
    return all(name == "**" for name in names[glob_at:])


def matches_name(glob: str, name: str, *, allow: bool) -> bool:
    """Return whether `*` and `?` in a glob make it the name; an allow rule spells hidden names out.

    >>> matches_name("*.py", "a.py", allow=True), matches_name("*", ".env", allow=True)
    (True, False)
    >>> matches_name(".env*", ".env.local", allow=True)
    True
    """
    if not allow:
        return matches_wildcard(glob.casefold(), name.casefold())
    if not is_guarded(name):
        return matches_wildcard(glob, name)
    head = glob.partition("*")[0]
    return glob == name or (
        head in PROTECTED and name.startswith(head) and matches_wildcard(glob, name)
    )


def matches_wildcard(glob: str, text: str) -> bool:
    """Return whether a text matches a glob with `*` (any characters) and `?` (one)."""
    at = glob_at = 0
    star = mark = -1
    while at < len(text):
        if glob_at < len(glob) and glob[glob_at] == "*":
            star, mark, glob_at = glob_at, at, glob_at + 1
        elif glob_at < len(glob) and glob[glob_at] in (text[at], "?"):
            at, glob_at = at + 1, glob_at + 1
        elif star >= 0:
            mark += 1
            at, glob_at = mark, star + 1
        else:
            return False
    return not glob[glob_at:].strip("*")


# ---- addresses

SCHEMES = ("https", "http")
HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
# Servers may read these as a slash or as `..`.
ESCAPED = ("%2e", "%2f", "%5c")


def split_url(url: str) -> tuple[str, str, str] | None:
    """Return scheme, host with port, and path of an address that is plain, else None.

    >>> split_url("https://Docs.example.com/a?b=c"), split_url("https://a@b.example/")
    (('https', 'docs.example.com', '/a?b=c'), None)
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in SCHEMES or not separator or not url.isascii() or not url.isprintable():
        return None
    ends = [at for at in map(rest.find, "/?#") if at >= 0]
    authority, path = rest[: min(ends, default=len(rest))], rest[min(ends, default=len(rest)) :]
    host, colon, port = authority.lower().partition(":")
    path = path if path.startswith("/") else f"/{path}"
    is_path = not (set(' \\"<>') & set(path) or any(each in path.lower() for each in ESCAPED))
    is_host = host and HOST.issuperset(host) and (port.isdecimal() or not colon)
    if not is_host or not is_path or ".." in path.replace("?", "/").split("/"):
        return None
    return scheme, f"{host}{colon}{port}", path


def check_url(matcher: str) -> str:
    parts = split_url(matcher.removesuffix("**"))
    if parts is None or "*" in matcher.removesuffix("/**"):
        return "Write one exact host, such as `https://docs.example.com/**`."
    return ""


def matches_url(matcher: str, url: str) -> bool:
    """Return whether the address of an allow rule matches a call's.

    >>> matches_url("https://docs.example.com/**", "https://docs.example.com/api?page=2")
    True
    >>> matches_url("https://docs.example.com/**", "https://docs.example.com.evil.example/")
    False
    """
    wanted, found = split_url(matcher.removesuffix("**")), split_url(url)
    if wanted is None or found is None:
        return False
    if matcher.endswith("/**"):
        return found[:2] == wanted[:2] and found[2].startswith(wanted[2])
    return found == wanted


def matches_host(matcher: str, url: str) -> bool:
    """Return whether the address of a deny rule matches a call's, however it is written.

    >>> matches_host("https://*.example.com/**", "HTTP://me@www.Example.com.:8080/x")
    True
    """
    wanted, found = (split_loosely(each) for each in (matcher, url))
    return matches_wildcard(wanted[0], found[0]) and matches_wildcard(wanted[1], found[1])


def split_loosely(url: str) -> tuple[str, str]:
    rest = url.strip().replace("\\", "/").casefold().rpartition("://")[2].lstrip("/")
    authority, _, path = rest.replace("?", "/?", 1).replace("#", "/#", 1).partition("/")
    host = authority.rpartition("@")[2].partition(":")[0].rstrip(".")
    return host, path
