"""The shapes of the API, one noun a file."""
