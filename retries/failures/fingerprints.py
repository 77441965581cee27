"""What an error says without what differs from case to case (pure): template and fingerprint.

Stateless: an error alone gives its fingerprint, whatever came before it and in whatever order.
"""

import re
from hashlib import sha256

LONGEST = 400
FINGERPRINT_LENGTH = 16

METHOD = r"(?:GET|PUT|POST|HEAD|PATCH|DELETE|OPTIONS)"
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
UNIT = (
    r"(?:(?:[num]s|s|secs?|seconds?|min|minutes?|hours?|days?|milliseconds?|[KMGT]i?B|B|bytes)\b|%)"
)
TOP_LEVEL = "com|org|net|edu|gov|info|biz|io|dev|app|cloud|local|internal|lan|corp|test"
# two letters that end a name of a host, and not one of a file
COUNTRY = "(?!cc|cs|go|hs|js|md|ml|pl|pm|ps|py|rb|rs|sh|so|tf|ts|vb)[a-z]{2}"
SUFFIX = (
    r"(?:py|[cm]?[jt]sx?|json|ya?ml|toml|lock|html?|s?css|md|txt|log|rs|go|rb|java|kt|cc?|h|[ch]pp"
    r"|cs|php|sh|sql|xml|jar|so|zip|gz|conf|ini|env|cfg|proto|ipynb)"
)
PORT = r"(?::\d{1,5}\b)?"
# Keys whose value may be what went wrong: it stays, and is only looked at like other text.
TELLING = r"(?:err(?:or)?|code|errno|reason|cause|msg|message|exception|status|detail|type)"

# ---- which line of an error says what went wrong

# Only that something ended badly, not why.
GENERIC = re.compile(
    r"\b(?:exit(?:ed)?|return(?:ed)?)\b.{0,20}\b(?:code|status)\b|^npm err!|^make: \*\*\*"
    r"|\blifecycle\b|^\W*fail(?:ed|ure)?\W*$|^error\W*$|command failed",
    re.I,
)
STRONG = re.compile(
    r"\b(?:[\w.$]*(?:Error|Exception)|error(?:\[\w+\]| TS\d+)?|fatal|panic(?:ked)?)\b[^:]{0,60}:"
    r"|command not found|no such file|permission denied|out of memory|cannot find",
    re.I,
)
TELLS = re.compile(
    r"error|exception|fail|fatal|panic|cannot|can.?t\b|could not|unable|not found|denied|refused"
    r"|timed? ?out|no such|invalid|unexpected|undefined|missing|conflict|killed|abort|rejected"
    r"|exceed|unknown|unresolved",
    re.I,
)
TRACEBACK = "Traceback (most recent call last)"
CAUSED = "Caused by: "
ASSERTED = re.compile(r"^E {2,}")
LOOKED_AT = 8_000

# ---- what may have spaces in it, over the whole line

QUOTED = re.compile(
    r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”|(?<!\w)‘[^’\n]*’(?!\w)"
)
REQUEST = re.compile(METHOD + r"(?= [/‹])")
# In quotes that hold more than this of a line stands the message itself.
MOST = 0.6
DATE = re.compile(rf"{MONTH} +\d\d? +(?:\d{{4}} +)?(?=\d\d:\d\d)")
# 404 and 500 have different causes, where other numbers tell nothing.
STATUS = re.compile(r"\b(?:HTTP(?:/[\d.]+)?|status code) ([1-5]\d\d)\b")
AMOUNT = re.compile(rf"\d+(?:\.\d+)? ?{UNIT}")
NAMED = re.compile(
    r"user (?!is\b|was\b|has\b|not\b)[\w.@\\-]+(?=$| (?:from|by|at|on)\b| ?[,:;()\[])"
    r"|for [\w.@\\-]+(?= from [\w.-]*\d)"
)

# ---- what stands in one word of a line; the first that fits at a place wins

PARTS = {
    "mark": r"‹[^›]*›",
    "url": r"[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+",
    "id": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "time": (
        r"\b\d{4}[-/]\d\d[-/]\d\d(?:T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d\b)?)?(?!\w)"
        r"|\b\d\d?/\w{3}/\d{4}:\d\d:\d\d:\d\d"
        r"|(?<![\w:])\d\d?:\d\d:\d\d(?:[.,]\d+)?(?![\w:])"
    ),
    "address": (
        rf"(?:(?<![\w.])[\w.-]*/)?\b(?:\d{{1,3}}\.){{3}}\d{{1,3}}\b(?![.-]\w){PORT}(?:/\d{{1,2}}\b)?"
        r"|(?<![\w:])(?:[0-9a-fA-F]{2}:){5,}[0-9a-fA-F]{2}\b"
        r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4})+(?![\w:])"
        rf"|(?<![\w./@-])(?:[\w-]+\.)+(?:{TOP_LEVEL})\b(?![.(-]?\w){PORT}"
        rf"|(?<![\w./@-])(?:[\w-]+\.){{2,}}{COUNTRY}\b(?![.(-]?\w){PORT}"
        rf"|\blocalhost\b{PORT}|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    ),
    "path": (
        r"(?<![\w/.])(?:~|\.{1,2}|[A-Za-z]:)?[/\\]+(?:[\w.@~+%*=,$#-]+[/\\]*)+(?::\d+)*"
        rf"|(?<![\w/.])(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.{SUFFIX}\b(?::\d+)*"
        r"|(?<![\w/.])(?:[\w.@+-]+/){2,}[\w@+.-]*"
    ),
    "pair": (
        rf"(?<![\w.-])(?!{TELLING}=)[A-Za-z_][\w.-]*=(?![=>~])"
        r"(?:‹[^›]*›|[^\s,;&()\[\]{}<>'\"])+"
    ),
    "truth": r"(?<=[:=(])(?:[tT]rue|[fF]alse)\b",
    "hex": r"\b0[xX][0-9a-fA-F]+\b|(?<=@)[0-9a-f]{5,16}\b",
    "number": r"(?<![\w.])[-+]?v?\d+(?:[.,]\d+)*(?![\w.]*\w)",
    "word": r"(?<!\w)[A-Za-z_$-]*\d[\w$-]*(?:\.[\w$-]*\d[\w$-]*)*",
}
ALL = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PARTS.items()))
PUNCTUATION = ".,:;!?()[]{}<>-*‹›"
TRUTHS = {"true", "false", "True", "False"}
DIGITS = re.compile(r"\d+")
MOST_DIGITS = 5
# TS2345, E501, HTTP404: its own name for what is wrong
CODE = re.compile(r"[A-Z]{1,6}\d{3,5}")
MIXED = re.compile(r"(?=\w*\d)[0-9a-f]{7,}|(?=\w*\d)[0-9A-F]{7,}")
MARKS = re.compile(r"‹[^›]*›(?:[\s,;:/.|#_+-]*‹[^›]*›)*")


def headline(message: str, *output: str) -> str:
    """The line that says what went wrong: of the message, else of what was printed, else any.

    >>> headline("npm test: exit code 1", "FAIL a.test.ts", "Error: Cannot find module 'uuid'")
    "Error: Cannot find module 'uuid'"
    """
    found: list[str] = []
    for text in (message, *output):
        lines = telling(text)
        if line := first(lines, STRONG):
            return line
        found += lines
    return first(found, TELLS) or (found[0] if found else "")


def first(lines: list[str], fits: re.Pattern[str]) -> str:
    found = (line for line in lines if fits.search(line) and not GENERIC.search(line))
    return next(found, "")


def telling(text: str) -> list[str]:
    """The lines to look at; of a stack trace only the last, of a chain of causes only the first."""
    text = text[-LOOKED_AT:]
    if CAUSED in text:
        text = text[text.rindex(CAUSED) + len(CAUSED) :]
    if TRACEBACK in text:
        after = text[text.rindex(TRACEBACK) :].splitlines()[1:]
        text = "\n".join(line for line in after if not line.startswith((" ", "\t")))
    lines = (ASSERTED.sub("", line).strip() for line in text.splitlines())
    return [line[:LONGEST] for line in lines if line]


def template(line: str) -> str:
    """The line with marks such as ‹path› and ‹number› for what differs from case to case.

    >>> template("worker-7: /srv/app/x.py:12 timed out after 300 s")
    'worker-‹n›: ‹path› timed out after ‹amount›'
    """
    line = line[:LONGEST]
    if "'" in line or '"' in line or "`" in line or "“" in line or "‘" in line:
        line = QUOTED.sub(unquoted, line)
    line = DATE.sub("", line)
    line = STATUS.sub(r"HTTP\1", line)
    line = AMOUNT.sub("‹amount›", line)
    line = NAMED.sub(lambda match: f"{match[0].partition(' ')[0]} ‹name›", line)
    return " ".join([plain(each) for each in line.split()])


def plain(text: str) -> str:
    """One word of the line."""
    if text.strip(PUNCTUATION).isalpha():
        return "‹truth›" if text in TRUTHS else text
    return ALL.sub(marked, text)


def unquoted(match: re.Match[str]) -> str:
    text = match[0][1:-1]
    if request := REQUEST.match(text):
        return f'"{request[0]} ‹path›"'
    if len(text) > MOST * len(match.string):
        return text
    return "‹text›"


def marked(match: re.Match[str]) -> str:
    name, text = match.lastgroup, match[0]
    match name:
        case "mark":
            return text
        case "pair":
            return f"{text.partition('=')[0]}=‹value›"
        case "word":
            return word(text)
    return f"‹{name}›"


def word(text: str) -> str:
    """A word with digits: an id as a whole, or its letters with the digits left out."""
    if CODE.fullmatch(text):
        return text
    if sum(map(str.isdigit, text)) > MOST_DIGITS or MIXED.fullmatch(text):
        return "‹id›"
    return DIGITS.sub("‹n›", text)


def fingerprint(template: str) -> str:
    """Equal for templates that differ only in their marks' kinds, or how many stand in a row."""
    bare = MARKS.sub("‹›", template).casefold().rstrip(" .")
    return sha256(bare.encode()).hexdigest()[:FINGERPRINT_LENGTH]
