"""Mask the parts of an error line that differ between cases (pure).

Every rule is of a general form, such as a path or a date, and stands alone: a measurement can drop
any of them and see what the others make of its lines. Each reads at most LINE_LENGTH characters.
"""

import re
from collections.abc import Callable, Container

# also the largest repetition in the rules below, so that no text makes them slow
LINE_LENGTH = 400

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


# ---- rules for parts of a line that may contain spaces

LINE_RULES = {
    "quotation": (
        r"(?<!\w)'[^'\n]{0,400}'(?!\w)",
        r"\"[^\"\n]{0,400}\"",
        r"`[^`\n]{0,400}`",
        r"“[^”\n]{0,400}”",
        r"(?<!\w)‘[^’\n]{0,400}’(?!\w)",
    ),
    # the date before a time, also in the forms of ctime and of mail
    "date": (
        rf"(?:{DAY} +)?{MONTH} +\d\d?,? +(?:\d{{4}} +)?(?=\d\d:\d\d)",
        rf"(?:{DAY} +)?\d\d? +{MONTH} +\d{{4}} +(?=\d\d:\d\d)",
    ),
    # Status codes stay, because 404 and 500 have different causes; other numbers go.
    "status": (r"\b(?:HTTP(?:/[\d.]+)?|status code) (?=[1-5]\d\d\b)",),
    "amount": (rf"(?<!\d)\d++(?:\.\d++)? ?{UNIT}",),
    # an optional name before a parenthesis, as in `by root(uid=0)` and `by (uid=0)`
    "optional name": (r"\b(?:by|for|from|as) [\w.@-]{0,80}(?=\(\w+=)",),
    "user name": (
        r"user (?!is\b|was\b|has\b|not\b)[\w.@\\-]+(?=$| (?:from|by|at|on)\b| ?[,:;()\[])",
        r"for [\w.@\\-]+(?= from [\w.-]*\d)",
    ),
}

# ---- rules for parts of a word; the first rule that matches wins

PART_RULES = {
    "mark": (r"‹[^›]{0,400}›",),
    "url": (r"[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+",),
    "id": (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",),
    "time": (
        r"\b\d{4}[-/]\d\d[-/]\d\d(?:T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d\b)?)?(?!\w)",
        r"\b\d\d?/\w{3}/\d{4}:\d\d:\d\d:\d\d",
        r"(?<![\w:])\d\d?:\d\d:\d\d(?:[.,]\d+)?(?![\w:])",
    ),
    "address": (
        rf"(?:(?<![\w.])[\w.-]{{0,400}}/)?\b(?:\d{{1,3}}\.){{3}}\d{{1,3}}\b(?![.-]\w){PORT}"
        r"(?:/\d{1,2}\b)?",
        r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5,}[0-9a-fA-F]{2}\b",
        r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){2,7}:?[0-9a-fA-F]++(?::[0-9a-fA-F]++)*+(?![\w:])",
        rf"(?<![\w./@-])(?:[\w-]+\.)+(?:{TOP_LEVEL})\b(?![.(-]?\w){PORT}",
        rf"(?<![\w./@-])(?:[\w-]+\.){{2,}}{COUNTRY}\b(?![.(-]?\w){PORT}",
        # a host without a known suffix, with a port
        rf"(?<![\w./@:\[-])(?!{CAUSE_KEYS}:)(?=[A-Za-z_]{{1,80}}[\d.-])[\w.-]{{2,200}}:\d{{2,5}}\b"
        r"(?![.:]?\w)",
        rf"\blocalhost\b{PORT}",
        r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    ),
    "path": (
        r"(?<![\w/.\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\]++(?:[\w.@~+%*=,$#-]+[/\\]*)+(?::\d+)*"
        r"(?:\?[\w.%&=+,*~-]+)?",
        rf"(?<![\w/.])(?:[\w.@+-]{{1,400}}/){{0,200}}[\w@+-][\w.@+-]{{0,400}}\.{SUFFIX}\b(?::\d+)*",
        r"(?<![\w/.])(?:[\w.@+-]{1,400}/){2,200}[\w@+.-]*",
    ),
    "pair": (
        rf"(?<![\w.-])(?!{CAUSE_KEYS}=)[A-Za-z_][\w.-]*=(?![=>~])"
        r"(?:‹[^›]*›|[^\s,;&()\[\]{}<>'\"])+",
    ),
    "truth": (r"(?<=[:=(])(?:[tT]rue|[fF]alse)\b",),
    "hex": (r"\b0[xX][0-9a-fA-F]+\b", r"(?<=@)[0-9a-f]{5,16}\b"),
    "number": (r"(?<![\w.])[-+]?v?\d{1,400}(?:[.,]\d{1,400}){0,200}(?![\w.]{0,400}\w)",),
    "word": (r"(?<!\w)[A-Za-z_$-]{0,400}\d[\w$-]*(?:\.[\w$-]{0,400}\d[\w$-]*)*",),
}
RULES = {
    f"{name} {number}": pattern
    for name, patterns in (LINE_RULES | PART_RULES).items()
    for number, pattern in enumerate(patterns)
}

REQUEST = re.compile(METHOD + r"(?= [/‹])")
# A quotation that is longer than this share of its line is the message itself.
QUOTED_SHARE = 0.6
QUOTES = re.compile("['\"`“‘]")
PUNCTUATION = ".,:;!?()[]{}<>-*‹›"
TRUTHS = {"true", "false", "True", "False"}
# Every part that a rule masks has one of these.
SPECIAL = re.compile(r"[\d/\\=@.:‹~(]")
DIGITS = re.compile(r"\d+")
# Words with more digits or more numbers are ids.
MOST_DIGITS, MOST_NUMBERS = 5, 2
# TS2345, E501, HTTP404: error codes stay
CODE = re.compile(r"[A-Z]{1,6}\d{3,5}")
HEX_ID = re.compile(r"(?=[a-f]{0,400}\d)[0-9a-f]{7,400}|(?=[A-F]{0,400}\d)[0-9A-F]{7,400}")


def build_make_template(dropped: Container[str] = ()) -> Callable[[str], str]:
    """Return a function that makes templates with all rules except those of RULES in `dropped`."""

    def join(name: str) -> str:
        count = len((LINE_RULES | PART_RULES)[name])
        names = [f"{name} {number}" for number in range(count)]
        return "|".join(RULES[each] for each in names if each not in dropped) or "(?!)"

    quotation, date, status, amount, optional_name, user_name = (
        re.compile(join(name)) for name in LINE_RULES
    )
    any_part = re.compile("|".join(f"(?P<{name}>{join(name)})" for name in PART_RULES))

    def mask_word(text: str) -> str:
        if text.strip(PUNCTUATION).isalpha():
            return "‹truth›" if text in TRUTHS else text
        if not SPECIAL.search(text):
            return text
        return any_part.sub(mask_part, text)

    def make_template(line: str) -> str:
        line = line[:LINE_LENGTH]
        if QUOTES.search(line):
            line = quotation.sub(mask_quotation, line)
        if ":" in line:
            line = date.sub("", line)
        if "HTTP" in line or "status" in line:
            line = status.sub("HTTP", line)
        line = amount.sub("‹amount›", line)
        if "=" in line:
            line = optional_name.sub(mask_name, line)
        if "user " in line or " from " in line:
            line = user_name.sub(mask_name, line)
        return " ".join([mask_word(each) for each in line.split()])

    return make_template


def mask_quotation(match: re.Match[str]) -> str:
    text = match[0][1:-1]
    if request := REQUEST.match(text):
        return f'"{request[0]} ‹path›"'
    if len(text) > QUOTED_SHARE * len(match.string):
        return text
    return "‹text›"


def mask_name(match: re.Match[str]) -> str:
    return f"{match[0].partition(' ')[0]} ‹name›"


def mask_part(match: re.Match[str]) -> str:
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
    # An id is masked as a whole, any other word only in its digits.
    if CODE.fullmatch(text):
        return text
    if sum(map(str.isdigit, text)) > MOST_DIGITS or HEX_ID.fullmatch(text):
        return "‹id›"
    masked, numbers = DIGITS.subn("‹n›", text)
    return masked if numbers <= MOST_NUMBERS else "‹id›"
