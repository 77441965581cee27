"""The only language."""
