"""Tenfour measured against hand-written SQL and a bare endpoint; see README.md."""
