"""The schema of a budget that is set together with a task or a plan."""

from typing import Literal

from pydantic import Field, StrictInt, model_validator

from ledger.schemas.shared import In

MOST_TOKENS = 10**12
MOST_USD = 1_000_000


class BudgetFields(In):
    """A limit in tokens or in dollars."""

    tokens: StrictInt | None = Field(
        None, ge=1, le=MOST_TOKENS, description="the limit in tokens, input and output together"
    )
    usd: float | None = Field(
        None, ge=0.01, le=MOST_USD, allow_inf_nan=False, description="the limit in US dollars"
    )
    period: Literal["day", "total"] = Field(
        "total", description="'day' for a limit of each day, or 'total' for one of all time"
    )
    at_limit: Literal["ask", "stop"] = Field(
        "ask",
        description="when it is used up, its tasks wait; 'ask' asks a person too, 'stop' asks no "
        "one",
    )
    zone: str = Field(
        "",
        max_length=64,
        description="the time zone of its day, such as Europe/Berlin; UTC if missing",
    )

    @model_validator(mode="after")
    def check_limit(self) -> "BudgetFields":
        if (self.tokens is None) == (self.usd is None):
            raise ValueError("Set the limit as either 'tokens' or 'usd'.")
        return self


class BudgetIn(BudgetFields, example={"tokens": 500_000, "at_limit": "ask"}):
    pass
