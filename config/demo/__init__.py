"""The parts of `manage.py demo`: agents with weaknesses, and how Tenfour handles them."""
