"""The floor: a minimal Django acknowledgment endpoint, the baseline for Tenfour's own."""
