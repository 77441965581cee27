"""What `manage.py demo` shows: agents at work, and what Tenfour does about their weaknesses."""
