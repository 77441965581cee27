"""The Limits page: the accounts that agents' calls are billed to, and what waits for a reset."""
