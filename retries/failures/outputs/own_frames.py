"""Find where in a project's own code an error was raised, from a stack trace (pure).

A frame is a file with its function: line numbers move with every edit.
"""

import re
from collections.abc import Iterator

# The text around the error that is searched.
BEFORE, AFTER = 6_000, 6_000
# A test runner names the line that raised within this many characters after the error.
SOON = 400
LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|node_modules|^node:|^internal/|^<|/rustc/"
    r"|\.cargo[/\\]|/pkg/mod/|/usr/local/go/|/usr/lib/|/usr/include/|[/\\]gems[/\\]|[/\\]vendor[/\\]"
    r"|sysdeps|/csu/|sanitizer"
)
# functions of the platforms and the test runners, by the start of their names
FOREIGN = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|groovy|junit|reactor|clojure"
    r"|org\.(?:junit|gradle|apache|springframework|hibernate|mockito|codehaus|assertj|testng|slf4j)"
    r"|io\.netty|com\.google\.common|com\.fasterxml|System|Microsoft|Xunit|NUnit|core|std|alloc"
    r"|runtime|testing|panic|__libc\w*|__GI\w*|__assert\w*|abort|raise|gsignal)(?:[./:]|$)"
)
UNSTEADY = re.compile(r"::h[0-9a-f]{16}$|::\{\{closure\}\}|\$\d+|<anonymous>|\.func\d+(?:\.\d+)*")
FILE = r"[\w@./\\:+~-]{1,300}"
# Python lists the innermost frame last; the others list it first, after the error.
# Each form is searched only in a text that holds its mark, which is much faster.
LAST = {
    mark: re.compile(pattern, re.MULTILINE)
    for mark, pattern in {
        'File "': r"^[ |+]{0,40}File \"(?P<file>[^\"\n]{1,300})\", line \d+, in "
        r"(?P<name>[^\n]{1,100})$",
        ".py:": r"^(?P<file>[\w./\\-]{1,200}\.py):\d+: (?:in (?P<name>[\w<>]{1,100})"
        r"|[A-Z]\w{1,80}$)?",
    }.items()
}
FIRST = {
    mark: re.compile(pattern, re.MULTILINE)
    for mark, pattern in {
        " at ": rf"^ {{1,40}}at (?:async )?(?:(?P<name>[\w$.<>\[\] ]{{1,120}}) )?"
        rf"\(?(?P<file>{FILE}):\d+:\d+\)?$",  # JavaScript
        "at ": r"^[ \t]{1,40}at (?P<name>[\w$.<>/]{1,200})\("
        r"(?P<file>\w{1,100}\.(?:java|kt|scala|groovy))"
        r":\d+\)",
        ":line ": r"^ {1,40}at (?P<name>[\w.`<>]{1,200})\([^)\n]{0,200}\) in (?P<file>[^\n:]{1,300}"
        r"(?::\\[^\n:]{1,300})?):line \d",  # .NET
        ".go:": r"^(?P<name>[\w./*()-]{1,200})\([^\n]{0,200}\)\n\t"
        r"(?P<file>[\w./@-]{1,300}\.go):\d+",
        ".rs:": r"^ {1,8}\d{1,4}: {1,8}(?P<name>[\w:<>{}$]{1,200})\n {1,40}at "
        r"(?P<file>[\w./\\-]{1,300}"
        r"\.rs):\d",
        "panicked at ": r"\bpanicked at (?:'[^\n]{0,300}', )?(?P<file>[\w./\\-]{1,300}\.rs):\d",
        ".rb:": r"^[ \t]{0,40}(?:from )?(?P<file>[\w./\\-]{1,300}\.rb):\d+:in [`']"
        r"(?P<name>[^'\n]{1,100})'",
        ".php": r"(?:^#\d{1,3} |\bin )(?P<file>[\w./\\-]{1,300}\.php)[(:]\d+\)?"
        r"(?:: (?P<name>[\w\\:>-]{1,100}))?",
        "#": r"^ {0,8}#\d{1,3} {1,4}(?:0x[0-9a-f]{1,16} )?(?:in )?(?P<name>[\w:~<>]{1,150}+)"
        r"(?: ?\([^)\n]{0,200}\))? (?:at )?(?P<file>[\w./\\-]{1,300}"
        r"\.(?:c|cc|cpp|cxx|h|hpp|m|swift)):\d",  # native
        ".ex": r"\([\w.-]{1,60} [\d.]{1,20}\) (?P<file>[\w./]{1,300}\.exs?):\d+: "
        r"(?P<name>[\w.!?/]{1,100})",
        ".c": r"^(?:[\w.-]{1,60}: )?(?P<file>[\w./\\-]{1,300}\.(?:c|cc|cpp|cxx)):\d+: "
        r"(?P<name>[\w:~]{1,100})?",  # an assertion
        ".swift:": r"^(?P<file>[\w./\\-]{1,300}\.swift):\d+: ",
    }.items()
}
# the place that a compiler names beside its error
PLACES = re.compile(
    r"^ {0,8}--> (?P<file>[^\n:]{1,300}):\d|^[ │|]{0,8}on (?P<tf>\S{1,300}) line \d", re.MULTILINE
)


def find_frame(cause: str, *texts: str) -> str:
    """Return the innermost frame of the project's own code near an error, or an empty string.

    >>> find_frame("KeyError: 3", 'File "/srv/app/x.py", line 3, in load\\nKeyError: 3')
    'app/x.py load'
    """
    for text in texts:
        at = text.find(cause) if cause else -1
        if at < 0:
            at = len(text)
        before, after = text[max(0, at - BEFORE) : at], text[at : at + AFTER]
        # the frame may stand in the line of the error
        line_start = before.rpartition("\n")[2]
        if found := find_innermost(before, line_start + after):
            return found
    return ""


def find_innermost(before: str, after: str) -> str:
    soon = next(list_frames(LAST[".py:"], after[:SOON]), "")
    if soon:
        return soon
    for mark, pattern in LAST.items():
        if mark in before and (frames := list(list_frames(pattern, before))):
            return frames[-1]
    for text in (after, before):
        for mark, pattern in FIRST.items():
            if mark in text and (frame := next(list_frames(pattern, text), "")):
                return frame
    return ""


def list_frames(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        file, name = (
            match["file"],
            UNSTEADY.sub("", match.groupdict().get("name") or "").strip(" :"),
        )
        if not LIBRARY.search(file) and not FOREIGN.match(name):
            yield f"{shorten_path(file)} {name}".strip()


def find_place(cause: str, *texts: str) -> str:
    for text in texts:
        at = text.find(cause) if cause else -1
        if at >= 0 and (match := PLACES.search(text[at : at + AFTER])):
            return shorten_path(match["file"] or match["tf"])
    return ""


# parts of a path that differ between two runs on one machine
UNSTEADY_PART = re.compile(
    r"tmp[\w.-]{0,60}|(?:[\w.]{0,40}-){0,8}(?=[a-f]{0,40}\d)[0-9a-f]{5,40}|\d{1,40}|te?mp"
    r"|[\w-]{0,60}\d{5,40}"
)
HOMES = frozenset(("home", "Users"))


def shorten_path(path: str) -> str:
    """Return the last two parts of a path, without the parts that differ between runs.

    >>> shorten_path("/srv/app/config/settings.yml"), shorten_path("/tmp/tmp8a3c/settings.yml")
    ('config/settings.yml', 'settings.yml')
    """
    parts = [part for part in re.split(r"[/\\]+", path.strip("/\\")) if part not in ("", ".", "..")]
    if not parts:
        return ""
    *folders, name = parts
    folder = folders[-1] if folders else ""
    is_home = len(folders) > 1 and folders[-2] in HOMES
    is_steady = folder and not is_home and not UNSTEADY_PART.fullmatch(folder) and folder != "~"
    return f"{folder}/{name}" if is_steady and not folder.endswith(":") else name
