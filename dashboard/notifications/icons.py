"""The symbol of a channel (pure)."""

from retries.models import Channel

SERVICES = {
    "email": "ch-mail",
    "slack": "ch-chat",
    "slack app": "ch-chat",
    "discord": "ch-chat",
    "microsoft teams": "ch-chat",
    "mattermost": "ch-chat",
    "rocket.chat": "ch-chat",
    "google chat": "ch-chat",
    "matrix": "ch-chat",
    "telegram": "ch-chat",
}


def icon_of(channel: Channel) -> str:
    if channel.is_webhook:
        return "ch-hook"
    return SERVICES.get(channel.service.lower(), "ch-push")
