"""Every address of the instance."""

from django.urls import include, path

from config import health, metrics
from config.api import api

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("problems/<slug:code>", health.problem_page),
    path("v1/", api.urls),
    path("", include("dashboard.urls")),
]
