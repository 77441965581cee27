"""Secrets that have a form of their own, such as the tokens of services (pure).

Every quantifier is bounded, so that the time grows in proportion to the text.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# No pattern matches a longer text. Where a text is cut, as much as this beside the cut is searched,
# so that half a secret is never kept.
LONGEST_SECRET = 24_576

START = r"(?<![A-Za-z0-9_])"


class Form(NamedTuple):
    """A form of secrets.

    The groups `bare` and `quoted` of the pattern are masked, or else the whole match. The pattern
    is searched in texts that contain one of `needs` in lower case or match the gate. `accepts`
    decides last. With `starts`, each match begins with one of these words in lower case.
    """

    kind: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    gate: re.Pattern[str] | None = None
    accepts: Callable[[re.Match[str]], bool] | None = None
    starts: tuple[str, ...] = ()

    def find(self, text: str, lower: str) -> Iterator[re.Match[str]]:
        """Yield the matches in a text, as `finditer` would; `lower` is the text in lower case."""
        # some characters are longer in lower case, so places would differ
        if not self.starts or len(lower) != len(text):
            yield from self.pattern.finditer(text)
            return
        end = 0
        # `re` tries a pattern that ignores case at each character, which takes far longer
        for start in sorted(at for word in self.starts for at in find_all(lower, word)):
            if start >= end and (match := self.pattern.match(text, start)):
                yield match
                end = match.end()


def lower_case(text: str) -> str:
    """Return a text in lower case, as patterns that ignore case compare it."""
    lower = text.lower()
    return lower if lower.isascii() else lower.replace("ſ", "s").replace("ı", "i")


def find_all(text: str, word: str) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        yield start
        start = text.find(word, start + 1)


def form(
    kind: str,
    needs: str,
    pattern: str,
    *,
    gate: re.Pattern[str] | None = None,
    accepts: Callable[[re.Match[str]], bool] | None = None,
    starts: str = "",
) -> Form:
    words = tuple(needs.split())
    return Form(kind, words, re.compile(pattern), gate, accepts, tuple(starts.split()))


# ---- secrets with a form of their own

SERVICES = (
    r"A3-[A-Z0-9]{6}-[A-Z0-9-]{11,13}(?:-[A-Z0-9]{5}){3}|ops_eyJ[A-Za-z0-9+/]{100,4096}={0,3}"
    r"|p8e-[A-Za-z0-9]{32}|AGE-SECRET-KEY-1[A-Z0-9]{58}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"
    r"|LTAI[A-Za-z0-9]{20}|AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59}|ATATT3[\w=-]{100,256}"
    r"|(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][\w.+/=-]{30,160}"
    r"|ABSK[A-Za-z0-9+/]{100,280}={0,2}|bedrock-api-key-[A-Za-z0-9+/=]{20,4096}"
    r"|4b1d[A-Za-z0-9]{38}|CLOJARS_[A-Za-z0-9]{60}|v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"
    r"|dp\.pt\.[A-Za-z0-9]{43}|duffel_(?:test|live)_[\w=-]{43}"
    r"|dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}|EZ[AT]K[A-Za-z0-9]{54}"
    r"|EAA[MC][A-Za-z0-9]{100,300}|FLW(?:SEC|PUB)K_TEST-[a-h0-9]{12,32}(?:-X)?"
    r"|fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,4096}={0,3}|fio-u-[\w=-]{64}"
    r"|gl(?:c_[A-Za-z0-9+/]{32,400}={0,3}|sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})"
    r"|[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
    r"|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}|HRKU-AA[\w-]{58}|api_org_[A-Za-z]{34}"
    r"|ico-[A-Za-z0-9]{32}|s-s4t2(?:ud|af)-[a-f0-9]{64}|lin_api_[A-Za-z0-9]{40}"
    r"|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|ntn_[0-9]{11}[A-Za-z0-9]{35}|API-[A-Z0-9]{26}"
    r"|sha256~[\w-]{43}|pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}"
    r"|pnu_[A-Za-z0-9]{36}|pul-[a-f0-9]{40}|rdme_[a-z0-9]{70}|rubygems_[a-f0-9]{48}"
    r"|tk-us-[\w-]{48}|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}|sntry[su]_[\w+/=-]{40,512}"
    r"|sm_[aps]at_[A-Za-z0-9]{16}|shippo_(?:live|test)_[a-fA-F0-9]{40}"
    r"|sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}|(?:EAAA|sq0atp-)[\w-]{22,60}"
    r"|SK[0-9a-f]{32}|GR1348941[\w-]{20}|dckr_pat_[\w-]{20,64}|CCIPAT_\w{20,128}"
)
# Many of them have no telling prefix, but all of those have a run of such characters.
RUN = re.compile(r"[A-Za-z0-9]{20}")
SERVICE_NEEDS = (
    "a3- ops_eyj atatt3 authress_ bedrock-api-key dp.pt. duffel_ fio-u- hrku-aa sntry pscale_ sm_"
    " flwseck_ flwpubk_ sq0atp- fo1_ tk-us-"
)

BY_FORM = (
    form(
        "private_key",
        "-----begin",
        r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,16384}-----END [A-Z0-9 ]{0,48}-----"
        r"|(?:(?!-----)[A-Za-z0-9+/=\s\\,:|>-]){0,16384})",
    ),
    form(
        "tenfour",
        "tenfour_",
        START + r"tenfour_(?:agt|orc|opr|ro)_[0-9A-Za-z]{16,64}(?:_[0-9A-Za-z]{1,16})?",
    ),
    # the link of an invitation, also in the address of a request
    form("invitation", "/join/", r"/join/(?P<bare>[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])"),
    form(
        "jwt",
        "eyj zxlk",
        START + r"(?:eyJ[A-Za-z0-9_-]{8,512}\.[A-Za-z0-9_-]{8,16384}(?:\.[A-Za-z0-9_-]{0,4096})?"
        r"|eyJrIjoi[A-Za-z0-9]{70,400}={0,3}|ZXlK[A-Za-z0-9+/]{60,16384}={0,2})",
    ),
    form(
        "aws",
        "akia asia abia acca a3t",
        START + r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Z0-9])",
    ),
    form(
        "github",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        START + r"(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255})",
    ),
    form(
        "gitlab",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        START + r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.-]{20,300}",
    ),
    form(
        "slack",
        "xox xapp- hooks.slack.com",
        START + r"(?:xox[a-z](?:[-.]xox[a-z])?-|xapp-)[A-Za-z0-9-]{10,400}"
        r"|hooks\.slack\.com/[a-z]{1,16}/[A-Za-z0-9+/]{20,200}",
    ),
    form(
        "webhook",
        "webhook",
        r"\.webhook\.office\.com/webhookb2/(?P<bare>[A-Za-z0-9@/-]{60,300})"
        r"|discord(?:app)?\.com/api/webhooks/\d{6,24}/[\w-]{40,100}",
    ),
    form(
        "stripe",
        "k_live_ k_test_ k_prod_ whsec_",
        START + r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{24,128})",
    ),
    form(
        "google",
        "aiza ya29. gocspx-",
        START + r"(?:AIza[\w-]{35}|ya29\.[\w-]{20,1024}|GOCSPX-[\w-]{20,64})",
    ),
    form("npm", "npm_", START + r"npm_[A-Za-z0-9]{36,64}"),
    form("pypi", "pypi-", START + r"pypi-(?=[\w-]{0,48}\d)[\w-]{50,1024}"),
    form(
        "llm",
        "sk- gsk_ hf_ xai- pplx- r8_",
        START + r"(?:sk-(?=[A-Za-z_-]{0,64}\d)[\w-]{20,300}|(?:gsk_|hf_|xai-|pplx-|r8_)"
        r"[A-Za-z0-9]{30,128})",
    ),
    form(
        "azure",
        "q~ sig=",
        r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])"
        r"|(?<=[?&;\s\"'])sig=(?P<bare>[\w%+/=-]{40,128})",
    ),
    form("sendgrid", "sg.", START + r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    form(
        "vault",
        "hvs. hvb. hvr.",
        START + r"(?:hv[sbr]\.[\w-]{20,300}|s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?!\w))",
        gate=RUN,
    ),
    form("digitalocean", "_v1_", START + r"do[opr]_v1_[a-fA-F0-9]{64}"),
    form("shopify", "shp", START + r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    form("databricks", "dapi", START + r"dapi[a-f0-9]{32}(?:-\d)?"),
    form(
        "api_token",
        SERVICE_NEEDS,
        START + rf"(?=[\w.~+/=-]{{20}})(?:{SERVICES})(?![A-Za-z0-9_])",
        gate=RUN,
    ),
)
