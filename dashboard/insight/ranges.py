"""The ranges of time on the Insight page (pure)."""

# by the name in the address: days, and the label
RANGES = {"24h": (1, "24 h"), "7d": (7, "7 d"), "30d": (30, "30 d")}
DEFAULT = "30d"
# The panels that show the time before now, however long it is, have no range.
ANY_RANGE = ("policies", "predictions", "days")


def list_ranges(days: int) -> list[tuple[str | None, str, bool]]:
    return [
        (None if key == DEFAULT else key, label, each == days)
        for key, (each, label) in RANGES.items()
    ]
