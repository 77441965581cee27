import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledger.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("ledger", "0010_insight"),
        ("retries", "0004_insight"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="QuietHours",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("starts", models.TimeField()),
                ("ends", models.TimeField()),
                ("timezone", models.CharField(max_length=64)),
            ],
            options={
                "verbose_name_plural": "quiet hours",
            },
        ),
        migrations.CreateModel(
            name="StreamCursor",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("tx", models.BigIntegerField()),
                ("event_id", models.UUIDField()),
                ("moved_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("webhook", "Webhook"), ("person", "Person")], max_length=8
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "service",
                    models.CharField(help_text="such as Webhook, Email or Slack", max_length=64),
                ),
                ("address", models.TextField(editable=False, help_text="encrypted")),
                (
                    "shown_address",
                    models.CharField(help_text="the address without its secrets", max_length=200),
                ),
                (
                    "signing_secrets",
                    models.TextField(
                        db_default="", editable=False, help_text="encrypted; of a webhook"
                    ),
                ),
                (
                    "events",
                    models.JSONField(
                        db_default=[],
                        help_text="kinds of events a webhook gets, such as task.*; empty: all",
                    ),
                ),
                (
                    "include_details",
                    models.BooleanField(
                        db_default=False, help_text="send the text of errors, which is untrusted"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "Active"),
                            ("failing", "Failing"),
                            ("disabled", "Disabled"),
                        ],
                        db_default="active",
                        max_length=8,
                    ),
                ),
                (
                    "disabled_because",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("gone", "the receiver answered 410 Gone"),
                            ("gave_up", "a delivery failed at its last try"),
                            ("unreadable", "its address can't be decrypted"),
                            ("by_hand", "switched off"),
                        ],
                        db_default="",
                        max_length=12,
                    ),
                ),
                ("disabled_at", models.DateTimeField(null=True)),
                ("enabled_at", models.DateTimeField(help_text="it gets the events since then")),
                ("failing_since", models.DateTimeField(null=True)),
                (
                    "failures",
                    models.IntegerField(
                        db_default=0, help_text="failed tries since the last success"
                    ),
                ),
                ("resume_at", models.DateTimeField(help_text="no try before then", null=True)),
                (
                    "sending_until",
                    models.DateTimeField(help_text="one process sends until then", null=True),
                ),
                ("sender", models.UUIDField(help_text="the run that sends", null=True)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("last_error", models.CharField(db_default="", max_length=200)),
                ("created_by_type", models.CharField(max_length=12)),
                ("created_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("version", models.IntegerField(db_default=1)),
                (
                    "person",
                    models.ForeignKey(
                        blank=True,
                        help_text="whose quiet hours it keeps",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        help_text="null: every project",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("message_id", models.CharField(max_length=80)),
                (
                    "kind",
                    models.CharField(
                        help_text="the event's kind, or summary or test", max_length=40
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("event", "Event"),
                            ("new", "New"),
                            ("reminder", "Reminder"),
                            ("update", "Update"),
                            ("second", "Second"),
                            ("summary", "Summary"),
                            ("test", "Test"),
                        ],
                        max_length=8,
                    ),
                ),
                ("event_id", models.UUIDField(null=True)),
                ("subject_type", models.CharField(db_default="", max_length=16)),
                ("subject_id", models.UUIDField(null=True)),
                ("agent_id", models.UUIDField(null=True)),
                ("title", models.CharField(db_default="", max_length=200)),
                (
                    "body",
                    models.JSONField(
                        help_text="what is sent: a webhook's body, or a message's parts"
                    ),
                ),
                ("traceparent", models.CharField(db_default="", max_length=55)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("retrying", "Retrying"),
                            ("delivered", "Delivered"),
                            ("gave_up", "Gave Up"),
                            ("not_sent", "Not Sent"),
                            ("held", "Held"),
                            ("summarized", "Summarized"),
                        ],
                        max_length=10,
                    ),
                ),
                ("tries", models.IntegerField(db_default=0)),
                ("next_try_at", models.DateTimeField(null=True)),
                (
                    "held_until",
                    models.DateTimeField(help_text="when the summary is due", null=True),
                ),
                ("first_try_at", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("latency_ms", models.IntegerField(help_text="of the last try", null=True)),
                (
                    "code",
                    models.IntegerField(
                        help_text="the last answer's status; null: no answer", null=True
                    ),
                ),
                ("error", models.CharField(db_default="", max_length=200)),
                (
                    "response",
                    models.TextField(db_default="", help_text="the first 1 KiB of the last answer"),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "channel",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="retries.channel",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
                (
                    "summary",
                    models.ForeignKey(
                        help_text="that tells it",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="summarized",
                        to="retries.delivery",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "deliveries",
            },
        ),
        migrations.CreateModel(
            name="DeliveryTry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("latency_ms", models.IntegerField()),
                ("code", models.IntegerField(null=True)),
                ("error", models.CharField(db_default="", max_length=200)),
                ("response", models.TextField(db_default="")),
                (
                    "delivery",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="each_try",
                        to="retries.delivery",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "delivery tries",
            },
        ),
        migrations.CreateModel(
            name="NotificationRule",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "conditions",
                    models.JSONField(
                        help_text="such as escalation or agent_silent, or kinds of events"
                    ),
                ),
                (
                    "severity",
                    models.CharField(
                        blank=True,
                        db_default="",
                        help_text="of an escalation; empty: any",
                        max_length=12,
                    ),
                ),
                (
                    "only_on_change",
                    models.BooleanField(
                        db_default=True, help_text="stay silent while the same condition goes on"
                    ),
                ),
                (
                    "cap_per_hour",
                    models.IntegerField(
                        blank=True,
                        help_text="the rest becomes one summary; null: no cap",
                        null=True,
                    ),
                ),
                (
                    "repeat_s",
                    models.IntegerField(blank=True, help_text="null: never repeated", null=True),
                ),
                (
                    "repeat_until",
                    models.CharField(
                        choices=[("answered", "Answered"), ("taken", "Taken")],
                        db_default="answered",
                        max_length=8,
                    ),
                ),
                ("quiet_from", models.TimeField(blank=True, null=True)),
                ("quiet_until", models.TimeField(blank=True, null=True)),
                ("timezone", models.CharField(db_default="UTC", max_length=64)),
                ("severe_breaks_quiet", models.BooleanField(db_default=True)),
                ("second_after_s", models.IntegerField(blank=True, null=True)),
                ("enabled", models.BooleanField(db_default=True)),
                ("enabled_at", models.DateTimeField(help_text="it tells of events since then")),
                ("changed_by_name", models.CharField(db_default="", max_length=64)),
                ("created_by_type", models.CharField(max_length=12)),
                ("created_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("version", models.IntegerField(db_default=1)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="null: every agent",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.agent",
                    ),
                ),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rules",
                        to="retries.channel",
                    ),
                ),
                (
                    "plan",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="null: every plan",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.plan",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        help_text="null: every project",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
                (
                    "second_channel",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="second_of",
                        to="retries.channel",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="delivery",
            name="rule",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="retries.notificationrule",
            ),
        ),
        migrations.CreateModel(
            name="NotificationThread",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "topic",
                    models.CharField(
                        help_text="such as escalation:ID or breaker:ID", max_length=96
                    ),
                ),
                ("subject_type", models.CharField(max_length=16)),
                ("subject_id", models.UUIDField()),
                ("title", models.CharField(max_length=200)),
                ("is_open", models.BooleanField(help_text="the condition still holds")),
                ("messages", models.IntegerField(db_default=0)),
                ("opened_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                ("repeat_at", models.DateTimeField(null=True)),
                (
                    "second_at",
                    models.DateTimeField(help_text="when the second channel is told", null=True),
                ),
                ("second_told_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="retries.notificationrule",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="delivery",
            name="thread",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="retries.notificationthread",
            ),
        ),
        migrations.AddIndex(
            model_name="channel",
            index=models.Index(fields=["project", "id"], name="channel_project"),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.UniqueConstraint(
                fields=("project", "name"), name="channel_name_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["webhook", "person"]),
                    ("state__in", ["active", "failing", "disabled"]),
                ),
                name="channel_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("disabled_at__isnull", False), ("state", "disabled")),
                    models.Q(
                        models.Q(("state", "disabled"), _negated=True),
                        ("disabled_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="channel_disabled_at",
            ),
        ),
        migrations.AddConstraint(
            model_name="deliverytry",
            constraint=models.UniqueConstraint(
                fields=("delivery", "number"), name="delivery_try_once"
            ),
        ),
        migrations.AddIndex(
            model_name="notificationrule",
            index=models.Index(fields=["project", "id"], name="notification_rule_project"),
        ),
        migrations.AddConstraint(
            model_name="notificationrule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("repeat_until__in", ["answered", "taken"]),
                    models.Q(
                        ("cap_per_hour__isnull", True), ("cap_per_hour__gte", 1), _connector="OR"
                    ),
                    models.Q(("repeat_s__isnull", True), ("repeat_s__gte", 60), _connector="OR"),
                    models.Q(
                        ("second_after_s__isnull", True),
                        ("second_after_s__gte", 60),
                        _connector="OR",
                    ),
                ),
                name="notification_rule_limits",
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationrule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("quiet_from__isnull", True), ("quiet_until__isnull", True)),
                    models.Q(("quiet_from__isnull", False), ("quiet_until__isnull", False)),
                    _connector="OR",
                ),
                name="notification_rule_quiet_hours",
            ),
        ),
        migrations.AddIndex(
            model_name="notificationthread",
            index=models.Index(
                condition=models.Q(("is_open", True), ("repeat_at__isnull", False)),
                fields=["repeat_at"],
                name="notification_thread_repeat",
            ),
        ),
        migrations.AddIndex(
            model_name="notificationthread",
            index=models.Index(
                condition=models.Q(("is_open", True), ("second_at__isnull", False)),
                fields=["second_at"],
                name="notification_thread_second",
            ),
        ),
        migrations.AddIndex(
            model_name="notificationthread",
            index=models.Index(fields=["subject_id"], name="notification_thread_subject"),
        ),
        migrations.AddConstraint(
            model_name="notificationthread",
            constraint=models.UniqueConstraint(
                fields=("rule", "topic"), name="notification_thread_once"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state__in", ("pending", "retrying"))),
                fields=["channel", "next_try_at", "id"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "held")), fields=["rule", "id"], name="delivery_held"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["channel", "id"], name="delivery_channel"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["state", "id"], name="delivery_state"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["rule", "created_at"], name="delivery_rule"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["event_id"], name="delivery_event"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["created_at"], name="delivery_created"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("channel", "message_id"), name="delivery_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "role__in",
                        ["event", "new", "reminder", "update", "second", "summary", "test"],
                    ),
                    (
                        "state__in",
                        [
                            "pending",
                            "retrying",
                            "delivered",
                            "gave_up",
                            "not_sent",
                            "held",
                            "summarized",
                        ],
                    ),
                ),
                name="delivery_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("next_try_at__isnull", False), ("state__in", ("pending", "retrying"))
                    ),
                    models.Q(
                        models.Q(("state__in", ("pending", "retrying")), _negated=True),
                        ("next_try_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="delivery_next_try_at",
            ),
        ),
    ]
