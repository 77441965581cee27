"""The rules that a project gets with its first channel for people."""

from ledger.database import sql
from ledger.journal import Kind, Stamp
from retries.models import Channel, NotificationRule
from retries.notifications import journaling
from retries.notifications.rules.conditions import DEFAULTS

CAP_PER_HOUR = 10


def create_default_rules(channel: Channel, *, stamp: Stamp) -> list[NotificationRule]:
    """Create the default rules for a channel, unless its project has rules.

    Call it in the transaction that inserts the channel.
    """
    # One first channel after the other, so that the rules are not there twice.
    sql.run("select pg_advisory_xact_lock(hashtext('tenfour.default_rules'))")
    if NotificationRule.objects.filter(project=channel.project_id).exists():
        return []
    made = [
        NotificationRule.objects.create(
            project_id=channel.project_id,
            conditions=[condition],
            channel=channel,
            cap_per_hour=CAP_PER_HOUR,
            enabled_at=stamp.at,
            created_by_type=stamp.actor.type,
            created_by_name=stamp.actor.name,
            created_at=stamp.at,
            updated_at=stamp.at,
        )
        for condition in DEFAULTS
    ]
    for rule in made:
        journaling.record_rule(Kind.NOTIFICATION_RULE_CREATED, rule, stamp=stamp)
    return made
