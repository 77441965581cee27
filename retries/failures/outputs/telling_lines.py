"""Choose the words that the search finds a failure by: its headline and other telling lines (pure).

They are stored with the failure. Lists show the first line, so each shows the same headline.
"""

import re

from retries.failures.outputs.salience import find_headline, rank_texts
from retries.failures.outputs.salience_rules import WEAK

# Of a short output every line counts: the retry context has all of them, too.
SHORT = 1_000
# These limits hold the index of words small: a line has at most 400 characters.
MOST_CHARACTERS, MOST_WORDS = 2_000, 200
PART = re.compile(r"[^\W_]{2,}")  # a word of the search


def find_telling_lines(output: str, details: str, message: str) -> str:
    """Return the headline of a failure's texts, then other telling lines, the best first.

    Lines of the message are left out, and lines without a new word.

    >>> find_telling_lines("collected 1 item\\nE   KeyError: 'EUR'", "", "exit code 1")
    "KeyError: 'EUR'\\ncollected 1 item"
    """
    headline = str(find_headline(output, details, message))
    texts = [each for each in dict.fromkeys((output, details)) if each.strip()]
    if sum(map(len, texts)) <= SHORT:
        found = [line for text in texts for line in text.splitlines()]
    else:
        found = [line.text for line in rank_texts(texts) if line.score >= WEAK]
    kept, room, words = [headline], MOST_CHARACTERS - len(headline), set(PART.findall(headline))
    for line in dict.fromkeys(" ".join(each.split()) for each in found):
        new = set(PART.findall(line)) - words
        if not new or line in message:
            continue
        room -= len(line) + 1
        words |= new
        if room < 0 or len(words) > MOST_WORDS:
            break
        kept.append(line)
    return "\n".join(kept)
