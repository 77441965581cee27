"""The schema of predictions."""

from typing import Any

from ninja import Schema
from pydantic import Field

from retries.insight.predictions import Prediction

PREDICTION: dict[str, Any] = {
    "chance": 0.31,
    "n": 57,
    "by": "signature",
    "brier_score": 0.121,
}


class PredictionOut(Schema):
    chance: float | None = Field(
        description="the chance, from 0 to 1, that the task is done within its attempts; null if "
        "n is less than 20"
    )
    n: int = Field(description="the number of earlier tasks that the chance rests on")
    by: str | None = Field(
        description="what those tasks have in common with it: signature, pattern, agent (with "
        "kind), or kind; null without a chance"
    )
    brier_score: float | None = Field(
        description="the mean squared error of such chances for the newest fifth of the history"
    )


def prediction_out(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    chance = prediction.chance
    return {
        "chance": None if chance is None else round(chance, 4),
        "n": prediction.tasks,
        "by": prediction.level or None,
        "brier_score": prediction.brier,
    }
