"""The results of the checks of `tenfour doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """The result of one check, and what to do about it."""

    level: Literal["ok", "warn", "fail"]
    text: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.level:<4}  {self.text} {self.advice}".rstrip()
