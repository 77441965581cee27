"""Benchmark Tenfour against hand-written SQL and a minimal endpoint; see README.md."""
