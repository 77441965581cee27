"""The schema of predictions."""

from typing import Any

from ledger.schemas.shapes import Part, field
from retries.insight.predictions import Prediction


class PredictionOut(Part):
    chance: float | None = field(
        "the chance, from 0 to 1, that the task is done within its attempts; null if "
        "n is less than 20",
        0.31,
        source=lambda row: None if row.chance is None else round(row.chance, 4),
    )
    n: int = field("the number of earlier tasks that the chance rests on", 57, source="tasks")
    by: str | None = field(
        "what those tasks have in common with it: signature, pattern, agent (with "
        "kind), or kind; null without a chance",
        "signature",
        source="level",
        empty_is_null=True,
    )
    brier_score: float | None = field(
        "the mean squared error of such chances for the newest fifth of the history",
        0.121,
        source="brier",
    )


def prediction_out(prediction: Prediction | None) -> dict[str, Any] | None:
    return PredictionOut.write(prediction) if prediction else None
