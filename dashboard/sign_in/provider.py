"""Read an OpenID Connect provider: its addresses, its keys, and the claims of an identity.

Nothing of it is trusted before it was checked: an answer that is not as the standard says is an
OAuth2Error, which ends signing in with a sentence.
"""

from typing import Any

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings

from dashboard.sign_in.provider_addresses import is_protected

# Only the provider's key signs a token, never a password that both sides know.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
SUB_LENGTH, NAME_LENGTH, EMAIL_LENGTH = 255, 150, 254
NAMES = ("preferred_username", "name", "given_name", "family_name")


class Provider(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """allauth's part of OpenID Connect, with every answer of the provider checked."""

    def get_provider(self) -> Any:
        provider = super().get_provider()
        provider.oauth2_adapter_class = type(self)  # the way to the provider is checked, too
        return provider

    @property
    def openid_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().openid_config
        if not isinstance(config, dict):
            raise OAuth2Error("The provider's configuration is not an object.")
        for name in ENDPOINTS:
            if not isinstance(config.get(name), str) or not is_protected(config[name]):
                raise OAuth2Error(f"The provider's {name} is not an https:// address.")
        return config

    def complete_login(self, request: Any, app: Any, token: Any, **more: Any) -> Any:
        """Return the identity of a verified ID token, with the claims of the userinfo endpoint."""
        id_token = read_claims(self._decode_id_token(app, more["response"].get("id_token")))
        userinfo = read_claims(self._fetch_user_info(token.token))
        if id_token["sub"] != userinfo["sub"]:
            raise OAuth2Error("The ID token and the userinfo endpoint name two identities.")
        data = {"id_token": id_token, "userinfo": userinfo}
        return self.get_provider().sociallogin_from_response(request, data)

    def _decode_id_token(self, app: Any, id_token: Any) -> Any:
        if not isinstance(id_token, str):
            raise OAuth2Error("The provider sent no ID token.")
        try:
            return jwt.decode(
                id_token,
                key=self.find_key(jwt.get_unverified_header(id_token).get("kid")),
                algorithms=ALGORITHMS,
                issuer=self.openid_config["issuer"],
                audience=app.client_id,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise OAuth2Error(f"The ID token is not valid: {error}") from error

    def find_key(self, kid: Any) -> jwt.PyJWK:
        """Return the provider's key with this id; without an id, its only key."""
        with get_adapter().get_requests_session() as session:
            response = session.get(self.openid_config["jwks_uri"])
            response.raise_for_status()
        keys = jwt.PyJWKSet.from_dict(response.json()).keys
        signing = [each for each in keys if each.public_key_use in (None, "sig")]
        # Without an id, the provider must have only one key.
        found = [each for each in signing if kid is None or each.key_id == kid]
        if len(found) != 1:
            raise OAuth2Error(f"{len(found)} of the provider's keys could have signed the token.")
        return found[0]


def read_claims(data: Any) -> dict[str, Any]:
    """Return the claims that are used here; raise OAuth2Error if one is not as it must be."""
    groups_claim = settings.TENFOUR["OIDC_GROUPS_CLAIM"]
    if not isinstance(data, dict):
        raise OAuth2Error("The claims are not an object.")
    claims = {name: data[name] for name in ("sub", *NAMES, "email") if data.get(name) is not None}
    for name, value in claims.items():
        if not isinstance(value, str) or "\0" in value:
            raise OAuth2Error(f"The claim {name} is not a text.")
    if not 0 < len(claims.get("sub", "")) <= SUB_LENGTH:
        raise OAuth2Error(f"The claim sub must have 1 to {SUB_LENGTH} characters.")
    if len(claims.get("email", "")) > EMAIL_LENGTH:
        del claims["email"]
    cut = {name: claims[name][:NAME_LENGTH] for name in NAMES if name in claims}
    groups = data.get(groups_claim)
    listed = groups if isinstance(groups, list) else [groups or ""]
    if not all(map(is_text, listed)):
        raise OAuth2Error(f"The claim {groups_claim} is not a list of texts.")
    verified = {"email_verified": data.get("email_verified") is True}
    return claims | cut | verified | {groups_claim: [name for name in listed if name]}


def is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value
