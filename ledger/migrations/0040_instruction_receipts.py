from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0039_task_rare_proof"),
    ]

    operations = [
        migrations.AddField(
            model_name="instruction",
            name="first_delivered_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="instruction",
            name="delivered_via",
            field=models.CharField(
                choices=[
                    ("tool_call", "with a tool call"),
                    ("stop", "when it wanted to stop"),
                    ("prompt", "with a prompt"),
                    ("heartbeat", "at a heartbeat"),
                    ("pull", "by a pull"),
                    ("mcp", "over MCP"),
                    ("cli", "by the command line"),
                ],
                max_length=16,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="instruction",
            name="delivered_call",
            field=models.IntegerField(
                help_text="number of the session's tool call that the last delivery came with",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="instruction",
            name="unread",
            field=models.BooleanField(
                db_default=False, help_text="its agent has made no step since the last delivery"
            ),
        ),
        migrations.AddField(
            model_name="instruction",
            name="read_at",
            field=models.DateTimeField(
                help_text="its agent's first step after a delivery", null=True
            ),
        ),
    ]
