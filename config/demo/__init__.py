"""What `manage.py demo` shows: agents at work, and what Heed does about their weaknesses."""
