"""The forms of secrets in text (pure).

Every quantifier is bounded and most patterns start at a fixed word, so that the time grows in
proportion to the text. `tests/ledger/test_secret_patterns.py` holds what is masked and what is not.
"""

import re
from base64 import b64decode

from ledger.secrets.forms import BY_FORM, form

# ---- a name, a separator, and a value


def _after(words: str, separator: str, start: str = "") -> str:
    """Return the pattern of a place after one of the words, with or without a separator."""
    return "|".join(f"(?<={start}{word})|(?<={start}{word}{separator})" for word in words.split())


# Names begin with the words by which `Form.find` looks for them; a lookbehind reads what precedes.
# After these names, every value of four characters or more is masked.
PASS_OF = _after(
    "db database user login admin root smtp imap ftp mail email redis mysql maria pg postgres mongo"
    " rabbit proxy ssh key store wifi broker http api account svc service sudo auth ldap vault"
    " basic",
    "[_.-]",
    start="(?<![a-z])",
)
SAFE_STARTS = "pass pwd secret"
SAFE = (
    r"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd|secret"
    rf"|(?=pass(?![a-z]))(?:{PASS_OF}|(?-i:(?<=[A-Z0-9]_)))pass)"
)
# After these names, a value is masked if it is long or has a digit.
KEY_OF = _after(
    "api access private account storage encryption signing master subscription license integration",
    "[ _-]",
)
NO_SECRET_KEYS = "CACHE PRIMARY FOREIGN PUBLIC SORT PARTITION GROUP HASH"
CONSTANT_KEY = "".join(f"(?<!{each}_)" for each in NO_SECRET_KEYS.split()) + "(?<=[A-Z0-9]_)KEY"
TOKEN_STARTS = "token key credential sessionid"
TOKEN = rf"(?:token|(?:{KEY_OF})key|(?-i:{CONSTANT_KEY})|credentials?|sessionid)"
# A name that ends so is about a secret; its value is not the secret.
ABOUT_WORDS = (
    "type|count|url|uri|name|path|file|limit|usage|budget|expires|at|length|field|policy|reset|min"
    "|max|age|expiry|required|enabled|prompt|strength|error|errors|help|label|hint|manager|ref"
)
# Possessive quantifiers: nothing that follows could match a part of what they took.
NAME_ENDS = r"""(?P<rest>[_-][A-Za-z0-9_-]{0,32}+)?\\?["'`]?\]?"""
SETS = r"[ \t]{0,32}+(?:=>|:=|=|:)[ \t]{0,32}+"
ENDS = r"""(?=[\s"'`,;:)\]}&<>|?\\]|$)"""

# text that stands for a value
PLACEHOLDER = (
    r"(?:\$\{[^}\n]{0,128}\}|\$\([^)\n]{0,256}\)|\{\{[^}\n]{0,128}\}\}|\{[\w.]{0,64}\}"
    r"|<[^<>\n]{0,64}>|\$(?-i:[A-Z_][A-Z0-9_]{0,64}|[a-z_]{1,64})"
    r"|%(?-i:[A-Z_][A-Z0-9_]{0,64}|[a-z_]{1,64})%|@[A-Z_]{1,64}@"
    r"|[*•]{3,64}|x{3,64}|\.{3}|…|\[[a-z ]{1,32}\]?)"
)
# types, literals and expressions of a program
CODE = (
    r"(?:none|null|nil|true|false|undefined|str|string|int|bool|boolean|bytes|optional|any|object"
    r"|number|char|varchar|text|files|compat|systemd)" + ENDS + r"|[A-Za-z_][\w.]{0,64}[(\[]"
    r"|(?:self|this|os|process|settings|config|cfg|conf|env|args|opts|options|params|props|req"
    r"|request|data|user|state|ctx|context|secrets|vars?|local|inputs|github|app|form|event|body)"
    r"(?:\??\.[A-Za-z_]{1,64}){1,8}" + ENDS
)
# what programs print about a password instead of the password
SENTENCE = (
    r"(?:[a-z][a-z'’-]{0,23},?[ \t]){0,4}(?:must|should|shall|can|cannot|can't|could|may|might|is"
    r"|isn't|was|were|are|be|been|has|have|had|does|do|did|doesn't|don't|not|no|the|a|an|this|that"
    r"|it|your|please|expected|got|received|required|requires|missing|invalid|incorrect|wrong|empty"
    r"|expired|denied|permission|failed|mismatch|unset|prompt|changed|unchanged|updated|hidden"
    r"|masked|redacted|unknown|too|minimum|contains?|needs?|found|exists?|field|value|string"
    r"|authentication|accepted|rejected|rotated|reset|stored|set)(?=[\s.,;:!?)\"'\]]|$)(?!''\w)"
)
# The first lookahead is the start of every value; it spares most texts the long second one.
NO_VALUE = (
    r"""(?=\\?["'`]|[^\s"'`,;<>(){}\[\]&|\\])"""
    rf"""(?!=|\\?["'`]?(?:{PLACEHOLDER}{ENDS}|{CODE}|{SENTENCE}))"""
)

# a value after a name: in quotes, or up to the end of a word in shell, URLs, JSON and code
# A doubled quote stands for one quote inside of quotes, as in SQL, CSV and YAML; where the opening
# one is doubled itself, the next one ends the value.
QUOTED = (
    r"""(?:\\?(?P<quote>["'`])|["'`]{{2,3}}(?=[\w-]))(?!\[redacted:)"""
    r"""(?P<quoted>(?:[^"'`\\\n]|(?(quote)(?:''|""|``)|(?!))){{{least},4096}})"""
)
BARE = r"""(?P<bare>[^\s"'`,;<>(){{}}\[\]&|\\]{{{least},4096}})"""
# "unexpected token: something" is not a token: tokens are long or have a digit
LIKE_A_TOKEN = r"""(?=["'`\\]{0,2}(?:[\w.+/=~:%-]{0,64}\d|[\w.+/=~:%-]{20}))(?!\d{1,9}(?!\w))"""
WITH_A_DIGIT = r"(?=[^\s\d]{0,64}\d)"

SCHEME = r"(?:basic|bearer|token|digest|negotiate|apikey)[ \t]{1,4}"
# In usage texts, a word in capitals stands for a value.
USAGE = r"(?!-|(?-i:[A-Z_]{2,64})(?![\w.-]))"


def _value(least: int) -> str:
    return f"(?:{QUOTED.format(least=least)}|{BARE.format(least=least)})"


ABOUT_REST = re.compile(rf"[_-](?:{ABOUT_WORDS})$", re.I)


def _is_value(match: re.Match[str]) -> bool:
    return not (match["rest"] and ABOUT_REST.search(match["rest"]))


# a name in a program, such as IDENTIFIER_EXPECTED
CONSTANT = re.compile(r"[A-Z]{1,64}(?:_[A-Z]{1,64}){1,16}")


def _is_token(match: re.Match[str]) -> bool:
    """Return whether the value is the secret: neither the name nor the value says otherwise."""
    value = match["bare"] or match["quoted"]
    return _is_value(match) and not CONSTANT.fullmatch(value)


def _is_basic(match: re.Match[str]) -> bool:
    """Return whether the value is a user and a password in base64."""
    return b":" in _decoded(match["bare"])


def _is_sasl(match: re.Match[str]) -> bool:
    """Return whether the value is the base64 of a password or token for a mail server."""
    value = _decoded(match["bare"])
    return value.count(b"\0") == 2 or b"auth=" in value


def _decoded(text: str) -> bytes:
    """Return the bytes that a text is the base64 of; empty if it is none."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""


# ---- secrets that only their context shows

URL_PLACEHOLDER = rf"(?!{PLACEHOLDER}(?=@))"
# a command up to the option; a second command ends it, so that the time stays linear
CURL = r"\bcurl(?:\.exe)?(?=[ \t])(?:(?!\bcurl[ \t])(?:[^\n\\]|\\[\s\S])){0,2000}?[ \t\"']"
MYSQL = (
    r"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlshow|mariadb|mariadb-dump)(?=[ \t])"
    r"(?:(?!\b(?:mysql|mariadb))(?:[^\n\\|;]|\\[\s\S])){0,500}?[ \t]"
)
LOGIN = (
    r"\b(?:(?:docker|podman|helm|oras|buildah|skopeo|oc|az|heroku)(?=[ \t])"
    r"(?:(?!\blogin)[^\n]){0,64}"
    r"[ \t]login(?=[ \t])|mongo(?:sh|dump|restore|export|import)?(?=[ \t])|sshpass(?=[ \t]))"
    r"(?:(?!\b(?:login|mongo|sshpass))(?:[^\n\\|;]|\\[\s\S])){0,500}?[ \t]"
)
NAME_STARTS = "passw passphrase secret token api private"
PORT = re.compile(r":(?:\d{3,5}|\*):")

BY_CONTEXT = (
    form(
        "url",
        "://",
        r"""://[^\s/?#:@"'<>]{0,128}:(?!\[redacted:)"""
        + URL_PLACEHOLDER
        + r"""(?P<bare>[^\s/?#@"'<>]{1,256})(?=@)""",
    ),
    form(
        "url",
        "%3a%2f%2f",
        r"(?i)%3A%2F%2F[^\s%&]{0,128}%3A(?!\[redacted:)(?P<bare>(?:(?!%40|%2F)[^\s&@/]){1,256})"
        r"(?=%40)",
    ),
    form(
        "authorization",
        "authorization",
        r"""(?i)authorization\\?["']?"""
        + SETS
        + rf"""\\?["']?(?:(?:{SCHEME})(?!{SCHEME})(?=(?-i:[\w.~+/=:-]{{0,64}}(?:\d|[a-z][A-Z]"""
        + r"|=)|[\w.~+/=:-]{20}))|(?!(?:basic|bearer|token|digest|negotiate|apikey)\b)"
        + LIKE_A_TOKEN
        + r")(?P<bare>[A-Za-z0-9._~+/=:-]{6,8192})",
    ),
    form(
        "bearer",
        "bearer",
        r"(?i)\bbearer[ \t]{1,4}(?=[a-z._~+/=-]{0,64}\d|[a-z._~+/=-]{20})"
        r"(?P<bare>[a-z0-9._~+/=-]{8,8192})",
    ),
    form(
        "cookie",
        "cookie _gitlab_session",
        r"""(?i)(?:\b(?:set-)?cookie\\?["']?[ \t]{0,4}:[ \t]{0,4}\\?["']?(?!\[redacted:)"""
        r"""(?P<bare>[\w.-]{1,128}=[^\n"']{1,8192})|_gitlab_session=[0-9a-z]{32})""",
    ),
    form(
        "secret",
        "curl",
        CURL + r"""(?:-u|--user|--proxy-user|-U)(?:=|[ \t]{0,4})["']?[^\s:"'$]{0,128}:"""
        rf"(?!\[redacted:)(?!{PLACEHOLDER}{ENDS})" + r"""(?P<bare>[^\s"']{3,256})""",
    ),
    form(
        "secret",
        "mysql mariadb",
        MYSQL
        + rf"""-p["']?(?!\[redacted:|{PLACEHOLDER}{ENDS})(?P<bare>[^\s"'-][^\s"']{{2,256}})""",
    ),
    form(
        "secret",
        "login mongo sshpass",
        LOGIN + r"(?:-p|--password)(?:=|[ \t]{1,4})[\"']?(?!\[redacted:)"
        rf"(?!{PLACEHOLDER}{ENDS}){USAGE}" + r"""(?P<bare>[^\s"']{3,256})""",
    ),
    form(
        "secret",
        "sshpass redis-cli -pass",
        r"(?:\bsshpass[ \t]{1,4}-p[ \t]{0,4}|\bredis-cli(?=[ \t])(?:(?!\bredis-cli)[^\n|;]){0,200}?"
        r"[ \t]-a[ \t]{1,4}|-pass(?:in|out|word)?[ \t]{1,4}pass:)[\"']?(?!\[redacted:)"
        rf"(?!{PLACEHOLDER}{ENDS}){USAGE}" + r"""(?P<bare>[^\s"']{3,256})""",
    ),
    form(
        "secret",
        "login",
        r"(?:\bmachine\s{1,16}\S{1,256}|\bdefault)\s{1,16}login\s{1,16}\S{1,128}\s{1,16}"
        r"(?:account\s{1,16}\S{1,128}\s{1,16})?password\s{1,16}(?!\[redacted:)(?P<bare>\S{1,256})",
    ),
    form(
        "secret",
        "",
        r"(?m)^[\w.*-]{1,255}:(?:\d{3,5}|\*):(?!\d{1,9}:)[\w.*-]{1,128}:[\w.*@-]{1,128}:"
        r"(?!\[redacted:)(?P<bare>(?:\\.|[^\s:\\/]){4,256})$",
        gate=PORT,
    ),
    form(
        "docker",
        "auth",
        r"""(?i)(?<![a-z])_?auth\\?["']?[ \t]{0,4}[=:][ \t]{0,4}\\?["']?"""
        r"(?P<bare>[A-Za-z0-9+/]{8,4096}={0,2})(?![\w+/=])",
        accepts=_is_basic,
    ),
    form(
        "authorization",
        "auth",
        r"(?i)\bauth(?:enticate)?[ \t]{1,4}(?:plain|xoauth2|oauthbearer)[ \t]{1,4}"
        r"(?P<bare>[A-Za-z0-9+/]{8,4096}={0,2})(?![\w+/=])",
        accepts=_is_sasl,
    ),
    form(
        "secret",
        "passw passphrase pwd pass secret",
        "(?i)" + SAFE + NAME_ENDS + SETS + r"(?!(?<=pwd[=:])[/~])" + NO_VALUE + _value(4),
        accepts=_is_value,
        starts=SAFE_STARTS,
    ),
    form(
        "secret",
        TOKEN_STARTS,
        "(?i)" + TOKEN + NAME_ENDS + SETS + LIKE_A_TOKEN + NO_VALUE + _value(8),
        accepts=_is_token,
        starts=TOKEN_STARTS,
    ),
    # "pass: hunter2" in a sentence; programs write "pass: 12 of 12" and "pass: tests/test_1.py" of
    # something else
    form(
        "secret",
        "pass",
        r"(?<![A-Za-z0-9_.-])[Pp]ass\\?[\"'`]?[ \t]{0,2}[:=][ \t]{0,4}\\?[\"'`]?(?!\[redacted:)"
        r"(?=\d{0,32}[^\s\w]{0,4}[A-Za-z][A-Za-z!-.:-@^~]{0,64}\d)(?!tests?(?![a-z]))"
        r"(?P<bare>[^\s\"'`,;<>(){}\[\]&|\\/]{6,4096})(?![/(\[\\])",
    ),
    form(
        "secret",
        "--",
        r"(?i)--(?:[a-z0-9]{1,16}-){0,3}(?:password|passphrase|secret|token|api-key)[ \t]{1,4}"
        + USAGE
        + NO_VALUE
        + _value(4),
    ),
    # XML: an element, or the value beside a name
    form(
        "secret",
        "</",
        r"(?i)<(?=[\w.:-]{0,48}?(?:passw(?:or)?d|passphrase|secret|token|api-?_?key|access-?_?key"
        rf"|private-?_?key))(?![\w.:-]{{1,64}}?(?:{ABOUT_WORDS})[ \t>])[\w.:-]{{4,64}}"
        r"(?:[ \t][^<>\n]{0,200})?>"
        rf"\s{{0,64}}(?!\[redacted:|{PLACEHOLDER}\s{{0,4}}<)"
        r"(?P<bare>[^\s<>][^<>]{0,4096})(?=</)",
    ),
    form(
        "secret",
        "value=",
        r"""(?i)(?:name|key|id)=\\?["'][\w.:-]{0,64}(?:passw(?:or)?d|passphrase|secret|token|apikey)"""
        r"""\\?["'][ \t]{1,8}value=\\?["']"""
        rf"(?!\[redacted:|{PLACEHOLDER}{ENDS})" + r"""(?P<bare>[^"'\n<>\\]{4,4096})""",
    ),
    # YAML: the value on the next lines
    form(
        "secret",
        "passw passphrase secret token key",
        r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key)"
        rf"(?![_-](?:{ABOUT_WORDS})(?![a-z]))(?:[_-][\w-]{{0,32}})?[\"']?:[ \t]{{0,8}}(?:"
        r"[|>][+-]?\d?[ \t]{0,8}\n(?P<indent>[ \t]{1,32})(?!\[redacted:)"
        r"(?P<bare>[^\s][^\n]{0,4096}(?:\n(?P=indent)[^\n]{1,4096}){0,64})"
        rf"|\n[ \t]{{1,32}}(?!\[redacted:|- |#){WITH_A_DIGIT}"
        r"(?P<next>[^\s:,;<>(){}\[\]]{4,4096})"
        r"[ \t]{0,8}(?=\n|$))",
        starts=NAME_STARTS,
    ),
    # URL encoding
    form(
        "secret",
        "%3d %3a",
        r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key)(?:[_-][\w-]{0,32})?"
        r"(?:%22|%27)?(?:%20|\+)?%3[ad](?:%20|\+)?(?:%22|%27)?(?!\[redacted:)"
        r"(?P<bare>(?:(?!%26|%22|%27|%0a|%2c|%7d|%3b)[^\s&\"'<>]){4,4096})",
        starts=NAME_STARTS,
    ),
)

FORMS = (*BY_FORM, *BY_CONTEXT)
# a text without any of these holds nothing that a pattern finds
NEEDS = tuple(sorted({need for each in FORMS for need in each.needs}))
GATES = tuple({each.gate for each in FORMS if each.gate})
# the groups of a pattern that are masked
GROUPS = ("bare", "quoted", "next")
