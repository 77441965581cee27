"""Amounts of tokens and of dollars: read them from a person's words, and format them (pure)."""

import re
from dataclasses import dataclass
from decimal import Decimal

from ledger.errors import Invalid

MOST = {"tokens": Decimal(10**12), "usd": Decimal(1_000_000)}
LEAST = {"tokens": Decimal(1), "usd": Decimal("0.01")}
FORM = re.compile(
    r"(?P<dollar>\$)?\s*+(?P<number>\d[\d,_ ]*+(?:\.\d++)?)\s*+(?P<factor>[kKmM])?\s*+"
    r"(?P<unit>tokens?|usd|dollars?)?",
    re.I | re.ASCII,
)
FACTORS = {"k": 1_000, "m": 1_000_000}
EXAMPLES = "'500000 tokens' or '5 USD'"


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of tokens or of dollars."""

    number: Decimal
    unit: str


def parse_amount(text: str, *, pointer: str = "/amount") -> Amount:
    """Parse an amount; raise Invalid.

    >>> parse_amount("500,000 tokens")
    Amount(number=Decimal('500000'), unit='tokens')
    >>> parse_amount("$5").unit, parse_amount("2.5M tokens").number
    ('usd', Decimal('2500000.0'))
    """
    match = FORM.fullmatch(text.strip())
    unit = (match["unit"] or "").lower() if match else ""
    if match is None or not (match["dollar"] or unit) or (match["dollar"] and "token" in unit):
        raise Invalid(pointer, f"Give an amount with its unit, such as {EXAMPLES}.")
    number = Decimal(re.sub(r"[,_ ]", "", match["number"]))
    number *= FACTORS.get((match["factor"] or "").lower(), 1)
    return Amount(
        check_number(number, "tokens" if "token" in unit else "usd", pointer=pointer),
        "tokens" if "token" in unit else "usd",
    )


def check_number(number: Decimal, unit: str, *, pointer: str) -> Decimal:
    least, most = LEAST[unit], MOST[unit]
    if not number.is_finite() or not least <= number <= most:
        raise Invalid(pointer, f"An amount in {name_unit(unit)} is from {least} to {most:,}.")
    if unit == "tokens" and number != number.to_integral_value():
        raise Invalid(pointer, "A number of tokens is a whole number.")
    return number if unit == "tokens" else round(number, 6)


def name_unit(unit: str) -> str:
    return "USD" if unit == "usd" else "tokens"


def format_number(number: Decimal, unit: str) -> str:
    """Format a number without its unit.

    >>> format_number(Decimal("1040000.000000"), "tokens"), format_number(Decimal("4.5"), "usd")
    ('1,040,000', '4.50')
    """
    if unit == "tokens":
        return f"{number:,.0f}"
    # of less than a cent the first digits that say something
    return f"{number:,.2f}" if not number or abs(number) >= Decimal("0.01") else f"{number:,.4f}"


def format_amount(number: Decimal, unit: str) -> str:
    return f"{format_number(number, unit)} {name_unit(unit)}"


def format_share(used: Decimal, limit: Decimal, unit: str) -> str:
    """Format how much of a limit is used.

    >>> format_share(Decimal(1040000), Decimal(1000000), "tokens")
    '1,040,000 of 1,000,000 tokens'
    """
    return f"{format_number(used, unit)} of {format_amount(limit, unit)}"
