"""The settings of signing in with an OpenID Connect provider; nothing of it loads without one."""

import re
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from dashboard.sign_in.provider_addresses import is_protected

APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]
MIDDLEWARE = ["allauth.account.middleware.AccountMiddleware"]
GROUP_ROLE = re.compile(r"[^=]+=[^:=]+:(viewer|operator|admin)")


def build_settings(
    tenfour: dict[str, Any], secret: Callable[[str], str], *, is_secure: bool
) -> dict[str, Any]:
    for part in filter(None, tenfour["OIDC_GROUPS"].split(",")):
        if not GROUP_ROLE.fullmatch(part.strip()):
            raise ImproperlyConfigured(
                f"{part!r} in TENFOUR_OIDC_GROUPS must look like group=project:role."
            )
    issuer, client = tenfour["OIDC_ISSUER"], tenfour["OIDC_CLIENT_ID"]
    if bool(issuer) != bool(client):
        raise ImproperlyConfigured("Set both TENFOUR_OIDC_ISSUER and TENFOUR_OIDC_CLIENT_ID.")
    if issuer and not is_protected(issuer):
        raise ImproperlyConfigured(
            f"TENFOUR_OIDC_ISSUER must begin with https://, not {issuer}. "
            "Only a provider on this machine may be reached by http://."
        )
    app = issuer and {
        "provider_id": "sso",
        "name": tenfour["OIDC_NAME"],
        "client_id": client,
        "secret": secret("OIDC_SECRET"),
        "settings": {"server_url": issuer},
    }
    provider = {"OAUTH_PKCE_ENABLED": True, "APPS": [app] if app else []}
    return {
        "SOCIALACCOUNT_PROVIDERS": {"openid_connect": provider},
        "SOCIALACCOUNT_ONLY": True,
        "SOCIALACCOUNT_ADAPTER": "dashboard.sign_in.single_sign_on.Identities",
        # A link, because the content security policy lets no form lead to another host.
        "SOCIALACCOUNT_LOGIN_ON_GET": True,
        "ACCOUNT_ADAPTER": "dashboard.sign_in.single_sign_on.Accounts",
        "ACCOUNT_DEFAULT_HTTP_PROTOCOL": "https" if is_secure else "http",
        "ACCOUNT_EMAIL_VERIFICATION": "none",
        "ACCOUNT_RATE_LIMITS": False,  # dashboard/sign_in/throttle.py limits attempts
    }
