"""What ties the packages together: settings, URLs, the clock, the servers."""

__version__ = "0.1.0"
