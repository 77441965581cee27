"""Every address of the server."""

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path

from config.api import api
from config.api_document.guide import guide, llms_txt
from config.client_wheel import client_wheel, wheel_name
from config.mcp.endpoint import mcp
from config.monitoring import health, metrics

handler500 = "config.requests.outages.answer_server_error"

admin.site.site_header = admin.site.site_title = "Tenfour"
# Sign-ins to the admin go through the sign-in page, which is throttled.
admin.site.login = login_required(admin.site.login)  # type: ignore[method-assign]

# Django tries addresses one after another, so the ones that agents call all the time come first.
# The figures are those of `python -m bench http sessions` in docs/performance.md.
FREQUENT = {
    "claims",
    "attempts/<id>/result",
    "attempts/<id>/heartbeat",
    "instructions/pull",
    "instructions/<id>/ack",
    "sessions/<id>/messages",
    "hooks/agent",
}
api_patterns, app_name, namespace = api.urls
api_patterns = sorted(api_patterns, key=lambda url: str(url.pattern) not in FREQUENT)

urlpatterns = [
    path("v1/", (api_patterns, app_name, namespace)),
    path("v1/guide", guide),
    path("llms.txt", llms_txt),
    path("mcp", mcp),
    path(f"client/{wheel_name()}", client_wheel, name="client_wheel"),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("problems/<slug:code>", health.problem_page),
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]

if apps.is_installed("allauth.socialaccount"):
    from dashboard.sign_in import single_sign_on

    sign_on = "sign-in/<slug:provider_id>/"
    urlpatterns += [
        path(sign_on, single_sign_on.start, name="openid_connect_login"),
        path(f"{sign_on}callback/", single_sign_on.callback, name="openid_connect_callback"),
    ]
