"""The project: settings, URLs, scheduled jobs, and servers."""

__version__ = "0.1.0"
