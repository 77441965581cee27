"""The least an acknowledgement over HTTP can cost with Django: what Tenfour's own is set beside."""
