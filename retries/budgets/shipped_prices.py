"""Prices of models' tokens that Tenfour ships, in USD per million, from the day on they hold.

A project's own prices come before them. They are the vendors' list prices, without discounts,
batches, or surcharges for long contexts.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens, by what the tokens were."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


def price(input: str, output: str, cache_read: str, cache_write: str = "") -> Price:
    # a vendor without a price of writing to the cache takes that of the input
    return Price(
        Decimal(input), Decimal(output), Decimal(cache_read), Decimal(cache_write or input)
    )


# by model, newest first
SHIPPED: dict[str, tuple[tuple[date, Price], ...]] = {
    "claude-opus-4-5": ((date(2025, 11, 24), price("5", "25", "0.50", "6.25")),),
    "claude-opus-4-1": ((date(2025, 8, 5), price("15", "75", "1.50", "18.75")),),
    "claude-opus-4": ((date(2025, 5, 22), price("15", "75", "1.50", "18.75")),),
    "claude-sonnet-4-5": ((date(2025, 9, 29), price("3", "15", "0.30", "3.75")),),
    "claude-sonnet-4": ((date(2025, 5, 22), price("3", "15", "0.30", "3.75")),),
    "claude-3-7-sonnet": ((date(2025, 2, 24), price("3", "15", "0.30", "3.75")),),
    "claude-3-5-sonnet": ((date(2024, 6, 20), price("3", "15", "0.30", "3.75")),),
    "claude-haiku-4-5": ((date(2025, 10, 15), price("1", "5", "0.10", "1.25")),),
    "claude-3-5-haiku": ((date(2024, 11, 4), price("0.80", "4", "0.08", "1")),),
    "gpt-5.1": ((date(2025, 11, 13), price("1.25", "10", "0.125")),),
    "gpt-5.1-codex": ((date(2025, 11, 13), price("1.25", "10", "0.125")),),
    "gpt-5.1-codex-mini": ((date(2025, 11, 13), price("0.25", "2", "0.025")),),
    "gpt-5": ((date(2025, 8, 7), price("1.25", "10", "0.125")),),
    "gpt-5-codex": ((date(2025, 9, 23), price("1.25", "10", "0.125")),),
    "gpt-5-mini": ((date(2025, 8, 7), price("0.25", "2", "0.025")),),
    "gpt-5-nano": ((date(2025, 8, 7), price("0.05", "0.40", "0.005")),),
    "gpt-4.1": ((date(2025, 4, 14), price("2", "8", "0.50")),),
    "gpt-4.1-mini": ((date(2025, 4, 14), price("0.40", "1.60", "0.10")),),
    "gpt-4o": ((date(2024, 10, 1), price("2.50", "10", "1.25")),),
    "gpt-4o-mini": ((date(2024, 7, 18), price("0.15", "0.60", "0.075")),),
    "o3": ((date(2025, 6, 10), price("2", "8", "0.50")),),
    "o4-mini": ((date(2025, 4, 16), price("1.10", "4.40", "0.275")),),
    "gemini-2.5-pro": ((date(2025, 6, 17), price("1.25", "10", "0.125")),),
    "gemini-2.5-flash": ((date(2025, 6, 17), price("0.30", "2.50", "0.03")),),
}
