"""Rank the earliest cause of a chain above its consequences (pure).

A program that could not fetch, start or build something often ends with what followed from that: no
matching version, a container that restarts, a rollout that timed out. A line that tells such a
consequence counts little where another line of the same output tells the cause.
"""

from dataclasses import dataclass
from re import Pattern

from retries.failures.outputs.salience_rules import lower_alternatives

# A cause counts as much as a diagnosis, but less than an exception that is no part of the chain.
CAUSE, CONSEQUENCE = 94, 60
# Only the best lines are searched for a consequence.
MOST_SEARCHED = 12


@dataclass(frozen=True, slots=True)
class Chain:
    """The text of a cause's lines and of its consequences' lines, in lower case."""

    cause: Pattern[str]
    consequence: Pattern[str]


WAITED = (
    r"\b(?:timed|time) ?-?out\b|deadline|back-?off|readiness probe|liveness probe|health ?check"
    r"|unhealthy|did not become|not ready|not able to start|failed to start"
)
CHAINS = (
    # the source of the packages could not be reached
    Chain(
        lower_alternatives(
            r"certificate[ _]verify|certificate verification|x509: |self.signed cert"
            r"|unable to get (?:local )?issuer|cert_has_expired|tlsv1 alert|ssl(?:cert|error\b)",
            r"proxyerror|tunnel connection failed|proxy authentication"
            r"|could not resolve host|name or service not known|name resolution",
            r"\b(?:401|403|407) (?:client error|unauthori[sz]ed|forbidden|proxy)"
            r"|authorization error"
            r"|connection refused|network is unreachable",
        ),
        lower_alternatives(
            r"no matching (?:distribution|version|package)|could not find a version that"
            r"|unable to find installation candidates|unable to locate package|max retries exceeded"
            r"|(?:failed to|could not) (?:fetch|download)|no solution found"
            r"|has no installation candidate"
            r"|could not resolve (?:all|depend)|requirements could not be|because \S+ was not found"
        ),
    ),
    # incompatible versions
    Chain(
        lower_alternatives(
            r"conflicts with your|does not satisfy that|missing from your system|conflicting depend"
        ),
        lower_alternatives(r"requirements could not be|resolutionimpossible|is locked to version"),
    ),
    # a process was killed for memory
    Chain(
        lower_alternatives(
            r"oom.?kill|out of memory|killed process \d|exit code:? 137\b|cannot allocate memory"
        ),
        lower_alternatives(
            WAITED,
            r"restarting failed|connection (?:refused|reset|closed|lost)|broken pipe"
            r"|worker \S{0,60} ?(?:was |has )?(?:lost|died|terminated|exited)|exited unexpectedly",
        ),
    ),
    # an image could not be pulled
    Chain(
        lower_alternatives(
            r"failed to pull|manifest unknown|manifest for|pull access denied|toomanyrequests"
            r"|pull rate limit|invalidimagename"
        ),
        lower_alternatives(WAITED, r"errimagepull|imagepull|failed to start container"),
    ),
    # a container could not be placed or started
    Chain(
        lower_alternatives(
            r"nodes are available: |insufficient (?:cpu|memory)|exceeded quota"
            r"|mountvolume\S{0,40} failed"
            r"|errimagepull|(?:config ?map|secret) \S{1,100} not found|createcontainerconfigerror"
            r"|address already in use|eaddrinuse|port is already allocated"
        ),
        lower_alternatives(WAITED),
    ),
    # a native build misses a header, a library or a program
    Chain(
        lower_alternatives(
            r"fatal error: [^:\n]{1,200}: no such file|fatal error: [^\n]{1,200}file not found"
            r"|executable not found|cannot find -l|in the pkg-config|could not find any python"
            r"|can.t find [^\n]{1,60} header|command not found$|: not found$|library not found"
            r"|could not find directory of \w+ installation|linker \S{1,20} not found"
        ),
        lower_alternatives(
            r"subprocess-exited|failed (?:building|to build)|metadata-generation|could not build"
            r"|command \S{1,100} failed|native extension|build (?:stopped|failed)"
            r"|custom build command"
            r"|extconf|mkmf|make(?:\[\d+\])?: \*{3}|is required to build|could not compile"
        ),
    ),
    # a step of a migration failed, or its check
    Chain(
        lower_alternatives(
            r"message +: +error: |checksum mismatch for migration"
            r"|detected (?:resolved|applied|failed) migration"
        ),
        lower_alternatives(
            r"migration of schema \S{1,80} [^\n]{1,80}failed|script \S{1,100} failed"
            r"|validate failed"
        ),
    ),
    # nothing more could be written
    Chain(
        lower_alternatives(r"no space left on device|disk quota exceeded|read-only file system"),
        lower_alternatives(
            r"unexpected e(?:of|nd)|corrupt|write error|broken pipe|could not (?:write|extend"
            r"|create)"
            r"|failed to (?:write|create|copy|extract|register|save)|not recoverable"
            r"|is not recoverable"
        ),
    ),
)


def find_chains(texts: dict[int, str], best: list[int]) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines that name causes, and of their consequences' lines.

    `texts` are the scored lines, and `best` the numbers of the best ones.
    """
    causes: set[int] = set()
    consequences: set[int] = set()
    lowered: dict[int, str] = {}
    for chain in CHAINS:
        ends = {at for at in best if chain.consequence.search(texts[at].lower())}
        if not ends:
            continue
        lowered = lowered or {at: text.lower() for at, text in texts.items()}
        found = {at for at, lower in lowered.items() if chain.cause.search(lower)}
        if found:
            causes |= found
            consequences |= ends - found
    return causes - consequences, consequences
