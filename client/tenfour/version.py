"""The version of this client; the server's is in `Client().me().version`."""

__version__ = "0.1.0"
