"""Every address of the instance."""

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path

from config import health, metrics
from config.api import api

admin.site.site_header = admin.site.site_title = "Tenfour"
# One door: the throttled sign-in page.
admin.site.login = login_required(admin.site.login)  # type: ignore[method-assign]

urlpatterns = [
    path("v1/", api.urls),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("problems/<slug:code>", health.problem_page),
    path(settings.TENFOUR["ADMIN_PATH"], admin.site.urls),
    path("", include("dashboard.urls")),
]
