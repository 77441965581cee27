import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import ledger.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='TaskHistory',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('from_state', models.CharField(max_length=16)),
                ('to_state', models.CharField(max_length=16)),
                ('error', models.TextField(null=True)),
                ('timestamp', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'task history',
                'db_table': 'task_history',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64)),
                ('paused', models.BooleanField(db_default=False)),
                ('concurrency', models.SmallIntegerField(blank=True, help_text='maximum number of concurrent attempts; empty for no limit', null=True)),
                ('system_text', models.TextField(db_default='', help_text='text placed before the prompt of each task')),
                ('last_seen_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='ClockRun',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('last_run_at', models.DateTimeField()),
                ('took_ms', models.IntegerField(null=True)),
                ('did', models.JSONField(default=dict, help_text='counts of the last completed run')),
            ],
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('number', models.IntegerField()),
                ('worker_id', models.CharField(db_default='', max_length=128)),
                ('outcome', models.CharField(max_length=12, null=True)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('lease_s', models.IntegerField()),
                ('lease_expires_at', models.DateTimeField()),
                ('deadline_at', models.DateTimeField()),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('heartbeats', models.IntegerField(db_default=0)),
                ('progress', models.JSONField(null=True)),
                ('report_digest', models.BinaryField(max_length=32, null=True)),
                ('decision', models.JSONField(null=True)),
                ('context_version', models.SmallIntegerField(help_text='version of the renderer', null=True)),
                ('context_variant', models.CharField(help_text='variant of the retry context under test', max_length=32, null=True)),
                ('context_elements', models.JSONField(help_text='number of elements by name', null=True)),
                ('context_chars', models.IntegerField(help_text='size in characters', null=True)),
                ('context_sha256', models.BinaryField(max_length=32, null=True)),
                ('agent', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
            ],
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('tx', ledger.models.fields.TransactionId(db_default=ledger.models.fields.CurrentTransaction(), editable=False)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('project_id', models.UUIDField()),
                ('kind', models.CharField(max_length=40)),
                ('subject_type', models.CharField(max_length=16)),
                ('subject_id', models.UUIDField()),
                ('agent_id', models.UUIDField(null=True)),
                ('from_state', models.CharField(max_length=16, null=True)),
                ('to_state', models.CharField(max_length=16, null=True)),
                ('actor_type', models.CharField(max_length=12)),
                ('actor_id', models.CharField(db_default='', default='', max_length=64)),
                ('actor_name', models.CharField(db_default='', default='', max_length=64)),
                ('data', models.JSONField(db_default={}, default=dict)),
                ('request_id', models.CharField(db_default='', default='', max_length=64)),
            ],
            options={
                'indexes': [models.Index(fields=['tx', 'id'], name='event_stream'), models.Index(fields=['subject_id', 'id'], name='event_subject'), django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['at'], name='event_at', pages_per_range=32)],
            },
        ),
        migrations.CreateModel(
            name='Plan',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('ref', models.CharField(max_length=129)),
                ('title', models.CharField(db_default='', max_length=200)),
                ('objective', models.TextField(db_default='')),
                ('run', models.IntegerField(db_default=1)),
                ('source', models.JSONField()),
                ('content_hash', models.CharField(max_length=64)),
                ('paused_at', models.DateTimeField(null=True)),
                ('aborted_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('version', models.IntegerField(db_default=1)),
                ('created_by_type', models.CharField(max_length=12)),
                ('created_by_name', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
            ],
        ),
        migrations.CreateModel(
            name='Instruction',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('content', models.TextField()),
                ('content_sha256', models.BinaryField(max_length=32)),
                ('tracked', models.BooleanField()),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('delivered', 'Delivered'), ('acknowledged', 'Acknowledged'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], max_length=16)),
                ('retry_count', models.SmallIntegerField(db_default=0)),
                ('max_retries', models.SmallIntegerField()),
                ('deliveries', models.SmallIntegerField(db_default=0)),
                ('expect_type', models.CharField(max_length=64, null=True)),
                ('expect_match', models.JSONField(null=True)),
                ('on_failed', models.CharField(choices=[('record', 'Record'), ('escalate', 'Escalate')], max_length=8)),
                ('position', models.BigIntegerField()),
                ('sent_by_type', models.CharField(max_length=12)),
                ('sent_by_id', models.CharField(max_length=64)),
                ('sent_by_name', models.CharField(max_length=64)),
                ('acknowledged_by', models.JSONField(null=True)),
                ('outcome', models.CharField(max_length=8, null=True)),
                ('note', models.TextField(db_default='')),
                ('queued_at', models.DateTimeField()),
                ('delivered_at', models.DateTimeField(null=True)),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('cancelled_at', models.DateTimeField(null=True)),
                ('late_ack_at', models.DateTimeField(null=True)),
                ('updated_at', models.DateTimeField()),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
                ('resend_of', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to='ledger.instruction')),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
            ],
        ),
        migrations.AddField(
            model_name='agent',
            name='project',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project'),
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('ref', models.CharField(max_length=258, null=True)),
                ('run', models.IntegerField(help_text="the plan's run that created the task", null=True)),
                ('title', models.CharField(db_default='', max_length=200)),
                ('type', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('retry', 'Retry'), ('blocked', 'Blocked'), ('escalated', 'Escalated'), ('done', 'Done'), ('failed', 'Failed'), ('skipped', 'Skipped'), ('aborted', 'Aborted')], max_length=12)),
                ('blocked_reason', models.CharField(max_length=20, null=True)),
                ('priority', models.IntegerField(db_default=0)),
                ('payload', models.JSONField()),
                ('result', models.JSONField(null=True)),
                ('error', models.TextField(null=True)),
                ('retry_count', models.IntegerField(db_default=0)),
                ('max_attempts', models.IntegerField()),
                ('attempt_limit', models.IntegerField()),
                ('attempts', models.IntegerField(db_default=0)),
                ('releases', models.SmallIntegerField(db_default=0, help_text='releases in this round')),
                ('unmet', models.IntegerField(db_default=0, help_text='needs not met yet')),
                ('needed_by', models.IntegerField(db_default=0, help_text='tasks that need this one')),
                ('on_exhausted', models.CharField(choices=[('escalate', 'Escalate'), ('dead_letter', 'Dead Letter')], max_length=12)),
                ('base_delay_ms', models.IntegerField()),
                ('max_delay_ms', models.IntegerField()),
                ('exponential_base', models.FloatField()),
                ('jitter', models.BooleanField()),
                ('lease_s', models.IntegerField()),
                ('timeout_s', models.IntegerField()),
                ('idempotent', models.BooleanField()),
                ('non_retryable', models.BooleanField(db_default=False)),
                ('redactions', models.JSONField(db_default={}, help_text='number of masked secrets by kind')),
                ('due_at', models.DateTimeField(null=True)),
                ('due_noted_at', models.DateTimeField(editable=False, null=True)),
                ('current_attempt', models.UUIDField(null=True)),
                ('abort_requested_at', models.DateTimeField(null=True)),
                ('version', models.IntegerField(db_default=1)),
                ('created_by_type', models.CharField(max_length=12)),
                ('created_by_name', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('agent', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
                ('carries', models.ForeignKey(db_index=False, help_text='the task of the previous run whose attempts and failures count for this one', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='carried_by', to='ledger.task')),
                ('plan', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to='ledger.plan')),
                ('project', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
                ('replaced_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='replaces', to='ledger.task')),
                ('replay_of', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='replays', to='ledger.task')),
            ],
        ),
        migrations.CreateModel(
            name='Need',
            fields=[
                ('pk', models.CompositePrimaryKey('task_id', 'need_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('need', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='dependents', to='ledger.task')),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='needs', to='ledger.task')),
            ],
        ),
        migrations.CreateModel(
            name='MissingNeed',
            fields=[
                ('pk', models.CompositePrimaryKey('task_id', 'ref', blank=True, editable=False, primary_key=True, serialize=False)),
                ('ref', models.CharField(max_length=258)),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='missing_needs', to='ledger.task')),
            ],
        ),
        migrations.CreateModel(
            name='Failure',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('type', models.CharField(choices=[('execution_error', 'Execution Error'), ('verification_failed', 'Verification Failed'), ('timeout', 'Timeout'), ('architect_rejected', 'Architect Rejected')], max_length=20)),
                ('code', models.CharField(db_default='', max_length=64)),
                ('message', models.TextField()),
                ('details', models.TextField(db_default='')),
                ('root_cause_guess', models.TextField(db_default='')),
                ('suggested_fix', models.TextField(db_default='')),
                ('verification', models.JSONField(null=True)),
                ('files_modified', models.JSONField(db_default=[])),
                ('learnings', models.JSONField(db_default=[])),
                ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='failure', to='ledger.attempt')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='failures', to='ledger.task')),
            ],
        ),
        migrations.CreateModel(
            name='DeadLetter',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('type', models.CharField(max_length=64)),
                ('payload', models.JSONField()),
                ('error', models.TextField()),
                ('reason', models.CharField(max_length=32)),
                ('retry_count', models.IntegerField()),
                ('failed_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('closed_as', models.CharField(max_length=10, null=True)),
                ('closed_by_name', models.CharField(db_default='', max_length=64)),
                ('note', models.TextField(db_default='')),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
                ('replayed_as', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.task')),
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='dead_letter', to='ledger.task')),
            ],
        ),
        migrations.AddField(
            model_name='attempt',
            name='task',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='attempt_set', to='ledger.task'),
        ),
        migrations.CreateModel(
            name='Token',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('agent', 'Agent'), ('orchestrator', 'Orchestrator'), ('operator', 'Operator'), ('reader', 'Reader')], max_length=12)),
                ('name', models.CharField(max_length=64)),
                ('prefix', models.CharField(help_text='the first characters, which identify the token', max_length=16)),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None)),
                ('created_by', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='ledger.agent')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
            ],
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.BinaryField(max_length=32)),
                ('status', models.SmallIntegerField(null=True)),
                ('body', models.TextField(default='')),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('token', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='ledger.token')),
            ],
        ),
        migrations.CreateModel(
            name='Breaker',
            fields=[
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='ledger.agent')),
                ('state', models.CharField(choices=[('closed', 'Closed'), ('open', 'Open'), ('half_open', 'Half Open')], db_default='closed', max_length=10)),
                ('failures', models.IntegerField(db_default=0, help_text='consecutive failures')),
                ('successes', models.IntegerField(db_default=0, help_text='successful probes while half open')),
                ('opened_at', models.DateTimeField(null=True)),
                ('probe_attempt', models.UUIDField(null=True)),
                ('reason', models.TextField(db_default='')),
                ('trips', models.IntegerField(db_default=0)),
                ('updated_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['closed', 'open', 'half_open'])), name='breaker_state_known'), models.CheckConstraint(condition=models.Q(('state', 'closed'), ('opened_at__isnull', False), _connector='OR'), name='breaker_open_has_opened_at')],
            },
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(fields=['project', 'id'], name='plan_project'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(condition=models.Q(('aborted_at', None), ('completed_at', None)), fields=['id'], name='plan_under_way'),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.UniqueConstraint(fields=('project', 'ref'), name='plan_ref_once'),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.CheckConstraint(condition=models.Q(('run__gte', 1)), name='plan_runs_from_one'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['agent', 'position'], name='instruction_queue'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(condition=models.Q(('state', 'delivered'), ('tracked', True)), fields=['agent', 'delivered_at'], name='instruction_idle_check'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(condition=models.Q(('expect_type__isnull', False), ('state__in', ('queued', 'delivered')), ('tracked', True)), fields=['agent', 'expect_type'], name='instruction_expecting'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(fields=['project', 'id'], name='instruction_project'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(fields=['agent', 'id'], name='instruction_agent'),
        ),
        migrations.AddIndex(
            model_name='instruction',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['project', 'id'], name='instruction_failed'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("state ~ '^(queued|delivered|acknowledged|failed|cancelled)$'", (), models.BooleanField()), name='instruction_state_known'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("on_failed ~ '^(record|escalate)$'", (), models.BooleanField()), name='instruction_on_failed_known'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL('retry_count >= 0 and retry_count <= max_retries and max_retries <= 20', (), models.BooleanField()), name='instruction_retries_in_range'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("tracked or retry_count = 0 and state ~ '^(queued|delivered|cancelled)$'", (), models.BooleanField()), name='instruction_plain_is_never_chased'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state = 'acknowledged') = (acknowledged_at is not null)", (), models.BooleanField()), name='instruction_acknowledged_at'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state = 'failed') = (failed_at is not null)", (), models.BooleanField()), name='instruction_failed_at'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state = 'cancelled') = (cancelled_at is not null)", (), models.BooleanField()), name='instruction_cancelled_at'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("state <> 'delivered' or delivered_at is not null", (), models.BooleanField()), name='instruction_delivered_at'),
        ),
        migrations.AddConstraint(
            model_name='instruction',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ('queued', 'delivered')), ('tracked', True)), fields=('agent', 'content_sha256'), name='instruction_unsettled_once'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('project', 'name'), name='agent_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('concurrency', None), ('concurrency__range', (1, 1000)), _connector='OR'), name='agent_concurrency_in_range'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(models.F('agent'), models.OrderBy(models.F('priority'), descending=True), models.F('id'), condition=models.Q(('state', 'queued')), name='task_queue'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'retry')), fields=['agent', 'due_at'], name='task_retries'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'retry')), fields=['due_at'], name='task_due'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'blocked')), fields=['agent'], name='task_blocked'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['project', 'id'], name='task_project'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['agent', 'id'], name='task_agent'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('plan__isnull', False)), fields=['plan', 'id'], name='task_plan'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('plan__isnull', False), models.Q(('state__in', ('done', 'failed', 'skipped', 'aborted')), _negated=True)), fields=['plan'], name='task_of_plan_under_way'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'done'), _negated=True), fields=['state', 'id'], name='task_not_done'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("state ~ '^(queued|running|retry|blocked|escalated|done|failed|skipped|aborted)$'", (), models.BooleanField()), name='task_state_known'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state = 'blocked') = (blocked_reason is not null) and blocked_reason ~ '^(dependency|dependency_skipped|breaker_open|reported)$'", (), models.BooleanField()), name='task_blocked_has_reason'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state = 'running') = (current_attempt is not null)", (), models.BooleanField()), name='task_running_has_attempt'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(state ~ '^(done|failed|skipped|aborted)$') = (completed_at is not null)", (), models.BooleanField()), name='task_final_has_completed_at'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("state <> 'retry' or due_at is not null", (), models.BooleanField()), name='task_retry_due_at'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL('least(unmet, retry_count, attempts, attempt_limit - attempts) >= 0', (), models.BooleanField()), name='task_counts_positive'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL('num_nulls(plan_id, ref, run) in (0, 3)', (), models.BooleanField()), name='task_in_plan_has_ref'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.UniqueConstraint(condition=models.Q(('ref__isnull', False), ('replaced_by', None)), fields=('project', 'ref', 'run'), name='task_ref_once'),
        ),
        migrations.AddConstraint(
            model_name='need',
            constraint=models.CheckConstraint(condition=models.Q(('task', models.F('need')), _negated=True), name='need_is_another_task'),
        ),
        migrations.AddIndex(
            model_name='missingneed',
            index=models.Index(fields=['project', 'ref'], name='missing_need_ref'),
        ),
        migrations.AddConstraint(
            model_name='failure',
            constraint=models.CheckConstraint(condition=models.Q(('type__in', ['execution_error', 'verification_failed', 'timeout', 'architect_rejected'])), name='failure_type_known'),
        ),
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(condition=models.Q(('closed_at', None)), fields=['id'], name='dead_letter_open'),
        ),
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(models.OrderBy(models.F('closed_at'), descending=True), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('closed_at__isnull', False)), name='dead_letter_closed'),
        ),
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(fields=['project', 'id'], name='dead_letter_project'),
        ),
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(fields=['agent', 'id'], name='dead_letter_agent'),
        ),
        migrations.AddConstraint(
            model_name='deadletter',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_as__isnull', True), ('closed_at__isnull', True)), models.Q(('closed_as__in', ['replayed', 'dismissed']), ('closed_as__isnull', False), ('closed_at__isnull', False)), _connector='OR'), name='dead_letter_closed_somehow'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('outcome', None)), fields=['agent', 'id'], name='attempt_live'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('task', 'number'), name='attempt_number_once'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(condition=models.Q(('outcome', None)), fields=('task',), name='attempt_live_once'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=django.db.models.expressions.RawSQL("(outcome is null) = (ended_at is null) and outcome ~ '^(success|failure|released|blocked|escalated|aborted)$'", (), models.BooleanField()), name='attempt_outcome_has_ended_at'),
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['agent', 'orchestrator', 'operator', 'reader'])), name='token_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('agent__isnull', False), ('kind', 'agent')), models.Q(models.Q(('kind', 'agent'), _negated=True), ('agent__isnull', True)), _connector='OR'), name='token_agent_only_for_agents'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('token', 'key'), name='idempotency_key_unique'),
        ),
    ]
