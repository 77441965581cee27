"""The parts of `manage.py demo`: agents at work, and what Tenfour does about their weaknesses."""
