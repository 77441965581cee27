"""Expose the floor as a WSGI application."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.floor.settings"

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
