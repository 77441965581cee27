"""Compute the fingerprint of an error (pure): its cause, without what differs between cases.

A fingerprint depends on its error alone, not on the errors that came before it.
"""

import re
from dataclasses import dataclass
from hashlib import sha256

from retries.failures.masks import build_make_template
from retries.failures.outputs.failing_tests import find_failing_test
from retries.failures.outputs.salience import find_headline

FINGERPRINT_LENGTH = 16
MARKS = re.compile(r"‹[^›]{0,400}›(?:[\s,;:/.|#_+-]{0,400}‹[^›]{0,400}›)*")
mask_line = build_make_template()  # reads at most 400 characters


@dataclass(frozen=True, slots=True)
class Identity:
    """An error's identity: its headline, the headline's template, and the fingerprint.

    `test` is the name of the failing test, if one failed.
    """

    headline: str
    template: str
    fingerprint: str
    test: str = ""


def identify(*texts: str) -> Identity:
    """Return the failure's identity from all its texts; of equally good lines, the first counts."""
    # The first failing test's name is part of the template, since each test fails for its own
    # reason.
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
    return mask_line(line)


def compute_fingerprint(template: str) -> str:
    """Return a hash that ignores the kinds of placeholders and how many are consecutive."""
    bare = MARKS.sub("‹›", template).casefold().rstrip(" .")
    return sha256(bare.encode()).hexdigest()[:FINGERPRINT_LENGTH]
