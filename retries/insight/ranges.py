"""The ranges of time that the Insight page offers (pure)."""

from datetime import timedelta

# in days
RANGES = (1, 7, 30)
LONGEST_RANGE = max(RANGES)
# the points of charts over time: two hours, half a day, two days
SLOTS = {1: 12, 7: 14, 30: 15}
# An attempt that began before the range may reach into it.
LONGEST_ATTEMPT = timedelta(days=1)
