"""Compute the fingerprint of an error (pure): its cause, without what differs between cases.

A fingerprint depends on its error alone, not on the errors that came before it.
"""

import re
from dataclasses import dataclass
from hashlib import sha256

from retries.failures.failing_tests import find_failing_test
from retries.failures.salience import find_headline

# also the largest repetition in the patterns below, so that no text makes them slow
LINE_LENGTH = 400
FINGERPRINT_LENGTH = 16

METHOD = r"(?:GET|PUT|POST|HEAD|PATCH|DELETE|OPTIONS)"
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?"
UNIT = (
    r"(?:(?:[num]s|s|secs?|seconds?|min|minutes?|hours?|days?|milliseconds?|[KMGT]i?B|B|bytes)\b|%)"
)
TOP_LEVEL = "com|org|net|edu|gov|info|biz|io|dev|app|cloud|local|internal|lan|corp|test"
# country codes that are not also file suffixes
COUNTRY = "(?!cc|cs|go|hs|js|md|ml|pl|pm|ps|py|rb|rs|sh|so|tf|ts|vb)[a-z]{2}"
SUFFIX = (
    r"(?:py|[cm]?[jt]sx?|json|ya?ml|toml|lock|html?|s?css|md|txt|log|rs|go|rb|java|kt|cc?|h|[ch]pp"
    r"|cs|php|sh|sql|xml|jar|so|zip|gz|conf|ini|env|cfg|proto|ipynb)"
)
PORT = r"(?::\d{1,5}\b)?"
# The value of such a key may be the cause, so it is masked word by word like other text.
CAUSE_KEYS = r"(?:err(?:or)?|code|errno|reason|cause|msg|message|exception|status|detail|type)"

# ---- parts of a line that may contain spaces

QUOTED = re.compile(
    r"(?<!\w)'[^'\n]{0,400}'(?!\w)|\"[^\"\n]{0,400}\"|`[^`\n]{0,400}`|“[^”\n]{0,400}”"
    r"|(?<!\w)‘[^’\n]{0,400}’(?!\w)"
)
REQUEST = re.compile(METHOD + r"(?= [/‹])")
# A quotation that is longer than this share of its line is the message itself.
QUOTED_SHARE = 0.6
# the date before a time, also in the forms of ctime and of mail
DATE = re.compile(
    rf"(?:{DAY} +)?(?:{MONTH} +\d\d?,? +(?:\d{{4}} +)?|\d\d? +{MONTH} +\d{{4}} +)(?=\d\d:\d\d)"
)
# an optional name before a parenthesis, as in `by root(uid=0)` and `by (uid=0)`
OPTIONAL_NAME = re.compile(r"\b(by|for|from|as) [\w.@-]{0,80}\((?=\w+=)")
# Status codes stay, because 404 and 500 have different causes; other numbers go.
STATUS = re.compile(r"\b(?:HTTP(?:/[\d.]+)?|status code) ([1-5]\d\d)\b")
AMOUNT = re.compile(rf"(?<!\d)\d++(?:\.\d++)? ?{UNIT}")
USER_NAME = re.compile(
    r"user (?!is\b|was\b|has\b|not\b)[\w.@\\-]+(?=$| (?:from|by|at|on)\b| ?[,:;()\[])"
    r"|for [\w.@\\-]+(?= from [\w.-]*\d)"
)

# ---- parts of a word; the first pattern that matches wins

PARTS = {
    "mark": r"‹[^›]{0,400}›",
    "url": r"[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+",
    "id": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "time": (
        r"\b\d{4}[-/]\d\d[-/]\d\d(?:T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d\b)?)?(?!\w)"
        r"|\b\d\d?/\w{3}/\d{4}:\d\d:\d\d:\d\d"
        r"|(?<![\w:])\d\d?:\d\d:\d\d(?:[.,]\d+)?(?![\w:])"
    ),
    "address": (
        rf"(?:(?<![\w.])[\w.-]{{0,400}}/)?\b(?:\d{{1,3}}\.){{3}}\d{{1,3}}\b(?![.-]\w){PORT}(?:/\d{{1,2}}\b)?"
        r"|(?<![\w:])(?:[0-9a-fA-F]{2}:){5,}[0-9a-fA-F]{2}\b"
        r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4})+(?![\w:])"
        rf"|(?<![\w./@-])(?:[\w-]+\.)+(?:{TOP_LEVEL})\b(?![.(-]?\w){PORT}"
        rf"|(?<![\w./@-])(?:[\w-]+\.){{2,}}{COUNTRY}\b(?![.(-]?\w){PORT}"
        # a host without a known suffix, with a port
        rf"|(?<![\w./@:\[-])(?!{CAUSE_KEYS}:)(?=[A-Za-z_]{{1,80}}[\d.-])[\w.-]{{2,200}}:\d{{2,5}}\b(?![.:]?\w)"
        rf"|\blocalhost\b{PORT}|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    ),
    "path": (
        r"(?<![\w/.\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\]++(?:[\w.@~+%*=,$#-]+[/\\]*)+(?::\d+)*(?:\?[\w.%&=+,*~-]+)?"
        rf"|(?<![\w/.])(?:[\w.@+-]{{1,400}}/){{0,200}}[\w@+-][\w.@+-]{{0,400}}\.{SUFFIX}\b(?::\d+)*"
        r"|(?<![\w/.])(?:[\w.@+-]{1,400}/){2,200}[\w@+.-]*"
    ),
    "pair": (
        rf"(?<![\w.-])(?!{CAUSE_KEYS}=)[A-Za-z_][\w.-]*=(?![=>~])"
        r"(?:‹[^›]*›|[^\s,;&()\[\]{}<>'\"])+"
    ),
    "truth": r"(?<=[:=(])(?:[tT]rue|[fF]alse)\b",
    "hex": r"\b0[xX][0-9a-fA-F]+\b|(?<=@)[0-9a-f]{5,16}\b",
    "number": r"(?<![\w.])[-+]?v?\d{1,400}(?:[.,]\d{1,400}){0,200}(?![\w.]{0,400}\w)",
    "word": r"(?<!\w)[A-Za-z_$-]{0,400}\d[\w$-]*(?:\.[\w$-]{0,400}\d[\w$-]*)*",
}
ANY_PART = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PARTS.items()))
PUNCTUATION = ".,:;!?()[]{}<>-*‹›"
TRUTHS = {"true", "false", "True", "False"}
DIGITS = re.compile(r"\d+")
MOST_DIGITS, MOST_NUMBERS = 5, 2
# TS2345, E501, HTTP404: error codes stay
CODE = re.compile(r"[A-Z]{1,6}\d{3,5}")
HEX_ID = re.compile(r"(?=[a-f]{0,400}\d)[0-9a-f]{7,400}|(?=[A-F]{0,400}\d)[0-9A-F]{7,400}")
MARKS = re.compile(r"‹[^›]{0,400}›(?:[\s,;:/.|#_+-]{0,400}‹[^›]{0,400}›)*")


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies an error: its headline, the template of that, and its fingerprint.

    `test` is the name of the failing test, if one failed.
    """

    headline: str
    template: str
    fingerprint: str
    test: str = ""


def identify(*texts: str) -> Identity:
    """Return the identity of a failure from all its texts; of equally good lines the first counts.

    The name of the first failing test is part of the template, since each test fails for a reason
    of its own.
    """
    headline = find_headline(*texts)
    template = make_template(headline.cause)
    test = find_failing_test(*texts)
    if test and test not in headline.cause:
        template = f"{test}: {template}"
    return Identity(str(headline), template, compute_fingerprint(template), test)


def make_template(line: str) -> str:
    """Return the line with placeholders such as ‹path› and ‹number› for its variable parts.

    >>> make_template("worker-7: /srv/app/x.py:12 timed out after 300 s")
    'worker-‹n›: ‹path› timed out after ‹amount›'
    """
    line = line[:LINE_LENGTH]
    if "'" in line or '"' in line or "`" in line or "“" in line or "‘" in line:
        line = QUOTED.sub(mask_quotation, line)
    line = DATE.sub("", line)
    line = STATUS.sub(r"HTTP\1", line)
    line = AMOUNT.sub("‹amount›", line)
    if "(" in line:
        line = OPTIONAL_NAME.sub(r"\1 ‹name›(", line)
    line = USER_NAME.sub(lambda match: f"{match[0].partition(' ')[0]} ‹name›", line)
    return " ".join([mask_word(each) for each in line.split()])


def mask_word(text: str) -> str:
    """Return one word of a line with its variable parts masked."""
    if text.strip(PUNCTUATION).isalpha():
        return "‹truth›" if text in TRUTHS else text
    return ANY_PART.sub(mask_part, text)


def mask_quotation(match: re.Match[str]) -> str:
    """Return the replacement of a quotation."""
    text = match[0][1:-1]
    if request := REQUEST.match(text):
        return f'"{request[0]} ‹path›"'
    if len(text) > QUOTED_SHARE * len(match.string):
        return text
    return "‹text›"


def mask_part(match: re.Match[str]) -> str:
    """Return the replacement of a part of a word."""
    name, text = match.lastgroup, match[0]
    match name:
        case "mark":
            return text
        case "pair":
            return f"{text.partition('=')[0]}=‹value›"
        case "word":
            return mask_digits(text)
    return f"‹{name}›"


def mask_digits(text: str) -> str:
    """Return the replacement of a word with digits: an id as a whole, else its digits only."""
    if CODE.fullmatch(text):
        return text
    if sum(map(str.isdigit, text)) > MOST_DIGITS or HEX_ID.fullmatch(text):
        return "‹id›"
    masked, numbers = DIGITS.subn("‹n›", text)
    return masked if numbers <= MOST_NUMBERS else "‹id›"


def compute_fingerprint(template: str) -> str:
    """Return a hash that ignores the kinds of placeholders and how many are in a row."""
    bare = MARKS.sub("‹›", template).casefold().rstrip(" .")
    return sha256(bare.encode()).hexdigest()[:FINGERPRINT_LENGTH]
