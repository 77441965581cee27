"""Sign sessions of an earlier secret key again, so that people stay signed in when it changes."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare


class SessionSignatures:
    """Renew the signature of a request's session, while earlier secret keys are configured.

    Django would give the session another id. What the browser has asked for at the same time with
    the former id would sign the person out, and the list of browsers would lose the session.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SECRET_KEY_FALLBACKS:
            renew_signature(request.session)
        return self.get_response(request)


def renew_signature(session: Any) -> None:
    signature = session.get(HASH_SESSION_KEY)
    backend = session.get(BACKEND_SESSION_KEY)
    if not signature or backend not in settings.AUTHENTICATION_BACKENDS:
        return
    user: Any = load_backend(backend).get_user(int(session[SESSION_KEY]))
    if user is None or constant_time_compare(signature, user.get_session_auth_hash()):
        return
    earlier = user.get_session_auth_fallback_hash()
    if any(constant_time_compare(signature, each) for each in earlier):
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
