"""What is hidden and stripped in text that agents hand in, and what is left alone."""

import secrets
import time
from typing import Any

import pytest

from ledger import tokens
from ledger.models.token import TokenKind
from ledger.secrets import redaction
from ledger.secrets.forms import LONGEST_SECRET
from ledger.secrets.names import NAME_NEEDS
from ledger.secrets.patterns import NEEDS
from ledger.secrets.redaction import DEEPEST, LONGEST, clean, redact, redacted, stripped, titled
from tests.ledger.test_secret_patterns import SECRET_NAMES

# Put together here, so that nothing in this file looks like a secret.
DIGITS = "0a1B2c3D4e5F6g7H8i9J" * 5
CAPITALS = "ABCDEFGHIJKLMNOPQRST"
BODY = "MIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcw\n"


def key_block(kind: str = "RSA ", body: str = BODY) -> str:
    fence = "-" * 5
    return f"{fence}BEGIN {kind}PRIVATE KEY{fence}\n{body}{fence}END {kind}PRIVATE KEY{fence}"


JWT = ".".join(("ey" + "J" + DIGITS[:30], "ey" + "J" + DIGITS[:40], DIGITS[:43]))

WHOLE = {
    "tenfour": [tokens.new_secret(kind) for kind in TokenKind],
    "private_key": [key_block(), key_block(""), key_block("OPENSSH ", "with 'quotes'\n")],
    "jwt": [JWT],
    "aws": ["AKI" + "A" + CAPITALS[:16], "ASI" + "A" + CAPITALS[:16]],
    "github": ["gh" + f"{letter}_" + DIGITS[:36] for letter in "pousr"]
    + ["github" + "_pat_" + DIGITS[:22] + "_" + DIGITS[:59]],
    "gitlab": ["gl" + "pat-" + DIGITS[:20], "gl" + "rt-" + DIGITS[:20]],
    "slack": ["xo" + "xb-1234567890-" + DIGITS[:24], "xa" + "pp-1-" + DIGITS[:40]],
    "stripe": [
        "sk" + "_live_" + DIGITS[:24],
        "rk" + "_test_" + DIGITS[:24],
        "wh" + "sec_" + DIGITS[:32],
    ],
    "google": ["AI" + "za" + DIGITS[:35], "ya" + "29." + DIGITS[:60], "GOC" + "SPX-" + DIGITS[:28]],
    "npm": ["np" + "m_" + DIGITS[:36]],
    "pypi": ["py" + "pi-" + DIGITS[:90]],
    "llm": ["s" + f"k-{vendor}" + DIGITS[:40] for vendor in ("", "proj-", "ant-api03-", "or-v1-")]
    + ["gs" + "k_" + DIGITS[:52], "h" + "f_" + DIGITS[:34], "xa" + "i-" + DIGITS[:80]],
}


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        # Some secrets are random: their numbers name the same test in every process.
        pytest.param(kind, secret, id=f"{kind}-{number}")
        for kind in WHOLE
        for number, secret in enumerate(WHOLE[kind])
    ],
)
def test_a_secret_of_known_form_is_masked_wherever_it_stands(kind: str, secret: str) -> None:
    mask = f"[redacted:{kind}]"
    assert redact(f"got '{secret}', went on") == (f"got '{mask}', went on", {kind: 1})
    assert redacted(f"first line\n{secret}\nlast") == f"first line\n{mask}\nlast"


def test_a_key_whose_end_was_cut_off_is_masked_as_far_as_it_looks_like_one() -> None:
    head = key_block().partition("-----END")[0]
    assert redacted(f"'{head}' is the key") == "'[redacted:private_key]' is the key"


SECRET = "correct" + "Horse7"
NAMED = [
    ("postgres://tenfour:{}@db:5432/tenfour", "url"),
    ("redis://:{}@127.0.0.1", "url"),
    ("Authorization: Bearer {}", "authorization"),
    ('{{"authorization": "Basic {}"}}', "authorization"),
    ("sent Bearer {} to it", "bearer"),
    ("Cookie: sid={}; theme=dark", "cookie"),
    ("set-cookie: sid={}; Path=/", "cookie"),
    ("PGPASSWORD={} psql", "secret"),
    ("password: {}", "secret"),
    ("paſſword: {}", "secret"),
    ("password = '{}'", "secret"),
    ('{{"dbPassword": "{} and words"}}', "secret"),
    ('{{\\"client_secret\\": \\"{}\\"}}', "secret"),
    ("SECRET_KEY={}", "secret"),
    ("?page=2&access_token={}&x=1", "secret"),
    ("X-Api-Key: {}", "secret"),
    ("aws_secret_access_key = {}", "secret"),
    ("//registry.example/:_authToken={}", "secret"),
    ("deploy --token {} --dry-run", "secret"),
    ("login --db-password {}", "secret"),
]


@pytest.mark.parametrize(("line", "kind"), NAMED)
def test_a_value_behind_a_telling_name_is_masked(line: str, kind: str) -> None:
    masked, found = redact(line.format(SECRET))
    assert SECRET not in masked and f"[redacted:{kind}]" in masked
    assert found == {kind: 1}
    assert masked.split("[")[0] == line.format(SECRET).split(SECRET)[0].split("sid=")[0]


def test_ordinary_output_is_left_alone() -> None:
    text = "Größe ✓ 👍 日本\n\ttabs stay"
    assert redact(text) == (text, {})


def test_key_names_count_at_any_depth() -> None:
    value: Any = {
        "steps": [{"headers": {"X-API-Key": "1234", "Accept": "text/html"}}],
        "credentials": {"user": "ann", "more": ["a", {"b": "c"}]},
        "auth": "hunter2",
        "tokens": 5,
        "password": None,
        "secret": "",
        "token_count": "12",
    }
    masked, found = redact(value)
    assert masked == {
        "steps": [{"headers": {"X-API-Key": "[redacted:secret]", "Accept": "text/html"}}],
        "credentials": {
            "user": "[redacted:secret]",
            "more": ["[redacted:secret]", {"b": "[redacted:secret]"}],
        },
        "auth": "[redacted:secret]",
        "tokens": 5,
        "password": None,
        "secret": "",
        "token_count": "12",
    }
    assert found == {"secret": 5}
    assert value["auth"] == "hunter2"


def test_a_key_may_itself_be_a_secret() -> None:
    assert redacted({WHOLE["npm"][0]: 1}) == {"[redacted:npm]": 1}


@pytest.mark.parametrize("value", ["hunter2", ["a", "hunter2"], {"name": "hunter2"}])
def test_what_a_name_hides_in_a_short_value_it_hides_in_a_long_one(value: Any) -> None:
    """One look at the JSON of a short one must not pass over what is found part by part."""
    for name in SECRET_NAMES:
        masked, found = redact({name: value})
        beside, all_found = redact([{name: value}, "w" * 300])
        assert found["secret"] and (beside[0], all_found) == (masked, found), name


def test_masking_twice_changes_nothing_more() -> None:
    lines = [line.format(SECRET) for line, _ in NAMED] + [each[0] for each in WHOLE.values()]
    value: Any = {"lines": lines, "password": "x", "text": "\n".join(lines)}
    masked = redacted(value)
    assert redact(masked) == (masked, {})


def test_what_hides_a_secret_is_stripped_before_it_is_looked_for() -> None:
    secret = WHOLE["github"][0]
    for between in ("\x1b[31m", "\u200b", "\x00", "\U000e0041"):
        assert redacted(secret[:9] + between + secret[9:]) == "[redacted:github]"


PLAIN = [
    "\x1b[31mred\x1b[0m\r\nnext",
    "👩\u200d👩\u200d👧 می\u200cخواهم",
    "a\u202eb\ufeff",
    "\tx\x08",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_holds_no_secret_comes_back_as_it_was(text: str) -> None:
    """S3.8"""
    value = {"text": text, text: [text]}
    assert redact(value) == (value, {})
    assert redacted(text + " " + WHOLE["npm"][0]) == stripped(text) + " [redacted:npm]"


def test_what_can_not_be_stored_is_left_out() -> None:
    assert redacted("a\x00b\ud800c") == "abc"


def test_a_title_keeps_the_joiners_of_its_words() -> None:
    family, persian = "👩\u200d👩\u200d👧", "می\u200cخواهم"
    assert titled(f"{family} {persian}") == f"{family} {persian}"
    assert titled("pa\u200dss \u200cx\u200d \u202egnp.exe\x1b[31m") == "pass x gnp.exe"
    assert titled("é\u200d\u200de é\u200bé") == "ée éé"
    assert clean(family, limit_bytes=100) == "👩👩👧"


def test_text_is_stripped_of_what_deceives_the_eye() -> None:
    assert stripped("\x1b]0;title\x07a\x1b[1;31mb\x1b[0m\x1b(Bc\x9b2Jd") == "abcd"
    assert stripped("a\r\nb\rc\td\x00\x08\x7f\x85e") == "a\nb\nc\tde"
    assert stripped("a\u202eb\u2066c\ufeffd\ud800e\uffff\U000e0041f") == "abcdef"
    assert stripped("\x1b\x1b[31m[31m") == "[31m"


def test_a_long_text_is_cut_with_a_mark_within_its_limit() -> None:
    assert clean("Grüße", limit_bytes=7) == "Grüße"
    head = clean("ü" * 100, limit_bytes=101)
    assert head == "ü" * 34 + "\n[… cut: 68 of 200 bytes kept]"
    for limit in (0, 10, 40, 41, 99, 150):
        assert len(clean("🙂" * 60, limit_bytes=limit).encode()) <= limit


def test_what_is_too_long_or_too_deep_is_not_kept_unseen() -> None:
    secret = WHOLE["npm"][0]
    long = redacted("x " * (LONGEST // 2) + secret)
    assert secret not in long and long.endswith(f"of {LONGEST + len(secret)} characters kept]")
    for beyond in (0, 1, len(secret) // 2, len(secret) - 1):
        # the cut divides the secret; text follows it, or more than is searched
        for rest in ("", " y" * LONGEST):
            divided = redacted("x" * (LONGEST - 1 - beyond) + " " + secret + rest)
            assert secret[:6] not in divided and "kept]" in divided
        # the end of what is searched divides it, behind masks that make the text shorter
        before = (secret + "\n") * 2000
        filler = "x" * (LONGEST + LONGEST_SECRET - len(before) - 1 - beyond)
        assert secret[:6] not in redacted(before + filler + " " + secret + " y" * LONGEST)
    deep: Any = secret
    for _ in range(DEEPEST * 2):
        deep = [deep]
    masked, found = redact(deep)
    assert found == {"depth": 1} and secret not in str(masked)


SHORT = "://a:b ://: password_ password= password='_ --a-b-c- cookie:a= sk-aaaaaaa a a. \x1b] \x1b["
HEADER = "-----BEGIN RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize(
    "unit",
    [
        *SHORT.split(),
        "password ",
        "token: ",
        "bearer ",
        "authorization: ",
        HEADER,
        f"{HEADER}a ",
        ".eyJaaaaaa",
        "\x9d",
        "\x90a",
        "pwd-",
    ],
)
def test_no_text_takes_long(unit: str) -> None:
    text = (unit * (65_536 // len(unit) + 1))[:65_536]
    before = time.process_time()
    redact(text)
    assert time.process_time() - before < 0.3


def test_one_search_finds_what_a_search_for_each_need_finds() -> None:
    """Tiny texts are searched for all needs at once, longer ones for one after the other."""
    for need in (*NEEDS, *NAME_NEEDS):
        for text in (need, f"a{need}b", need[:-1], need[1:]):
            data = text.encode()
            assert bool(redaction.NEED.search(text)) == any(each in text for each in NEEDS)
            assert bool(redaction.NAMED_NEED_BYTES.search(data)) == any(
                named in data for named in redaction.NAMED_BYTES
            )


def test_the_link_of_an_invitation_is_masked_in_text() -> None:
    link = f"https://tenfour.example/join/{secrets.token_urlsafe(32)}/"
    assert redacted(f"Open {link}") == "Open https://tenfour.example/join/[redacted:invitation]/"
