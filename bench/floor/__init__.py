"""The least an acknowledgement over HTTP can cost with Django: what Heed's own is set beside."""
