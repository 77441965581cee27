import django.db.models.deletion
import ledger.models.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('ledger', '0002_database'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='FailurePattern',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('fingerprint', models.CharField(max_length=16)),
                ('template', models.TextField()),
                ('example', models.TextField(help_text='the first error line that matched')),
                ('state', models.CharField(choices=[('open', 'Open'), ('ignored', 'Ignored'), ('resolved', 'Resolved'), ('regressed', 'Regressed')], db_default='open', max_length=10)),
                ('ignored_until', models.DateTimeField(null=True)),
                ('note', models.TextField(db_default='')),
                ('first_seen', models.DateTimeField()),
                ('last_seen', models.DateTimeField(help_text='updated at most once a minute')),
                ('state_at', models.DateTimeField()),
                ('state_by_name', models.CharField(db_default='', max_length=64)),
                ('updated_at', models.DateTimeField()),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
            ],
        ),
        migrations.CreateModel(
            name='Grouped',
            fields=[
                ('failure', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='ledger.failure')),
                ('at', models.DateTimeField()),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
                ('pattern', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='grouped', to='retries.failurepattern')),
            ],
        ),
        migrations.CreateModel(
            name='Escalation',
            fields=[
                ('id', models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('open', 'Open'), ('resolved', 'Resolved'), ('expired', 'Expired'), ('withdrawn', 'Withdrawn')], max_length=12)),
                ('reason', models.CharField(max_length=32)),
                ('severity', models.CharField(db_default='normal', max_length=12)),
                ('raised_by_type', models.CharField(max_length=12)),
                ('raised_by_name', models.CharField(max_length=64)),
                ('attempts', models.IntegerField(null=True)),
                ('attempt_limit', models.IntegerField(null=True)),
                ('retry_count', models.IntegerField(null=True)),
                ('question', models.TextField(db_default='', help_text='the question as the agent worded it')),
                ('choices', models.JSONField(db_default=[], help_text='answers the agent offers')),
                ('response_schema', models.JSONField(null=True)),
                ('client_state', models.JSONField(help_text='opaque data returned to the asker', null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('on_expiry', models.CharField(choices=[('retry', 'Retry'), ('skip', 'Skip'), ('abort', 'Abort'), ('fail', 'Fail')], max_length=8, null=True)),
                ('notify_again_at', models.DateTimeField(null=True)),
                ('opened_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('updated_at', models.DateTimeField()),
                ('version', models.IntegerField(db_default=1)),
                ('action', models.CharField(max_length=8, null=True)),
                ('fix', models.TextField(db_default='')),
                ('response', models.JSONField(help_text='the answer, shaped by response_schema', null=True)),
                ('note', models.TextField(db_default='')),
                ('answered_by_type', models.CharField(db_default='', max_length=12)),
                ('answered_by_id', models.CharField(db_default='', max_length=64)),
                ('answered_by_name', models.CharField(db_default='', max_length=64)),
                ('channel', models.CharField(db_default='', max_length=8)),
                ('undo_until', models.DateTimeField(help_text='the answer can be undone until then', null=True)),
                ('offered_to', models.CharField(editable=False, help_text='the worker that is offered the task first', max_length=128, null=True)),
                ('cancelled', models.IntegerField(help_text='number of instructions an abort cancelled', null=True)),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.agent')),
                ('asked_in', models.ForeignKey(db_index=False, help_text='the attempt that asked; null if Tenfour or a plan asked', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.attempt')),
                ('assignee', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('instruction', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to='ledger.instruction')),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.project')),
                ('resent_as', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='ledger.instruction')),
                ('task', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to='ledger.task')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'open')), fields=['id'], name='escalation_inbox'), models.Index(condition=models.Q(('state', 'open')), fields=['notify_again_at'], name='escalation_remind'), models.Index(condition=models.Q(('expires_at__isnull', False), ('state', 'open')), fields=['expires_at'], name='escalation_expiry'), models.Index(fields=['project', 'id'], name='escalation_project'), models.Index(fields=['agent', 'id'], name='escalation_agent'), models.Index(condition=models.Q(('instruction__isnull', False)), fields=['instruction'], name='escalation_instruction'), models.Index(condition=models.Q(('task__isnull', False)), fields=['task'], name='escalation_task'), models.Index(models.OrderBy(models.F('closed_at'), descending=True), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('state', 'open'), _negated=True), name='escalation_answered'), models.Index(condition=models.Q(('offered_to__isnull', False)), fields=['agent', 'offered_to'], name='escalation_offered')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['open', 'resolved', 'expired', 'withdrawn'])), name='escalation_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('state', 'open')), models.Q(models.Q(('state', 'open'), _negated=True), ('closed_at__isnull', False)), _connector='OR'), name='escalation_closed_at'), models.CheckConstraint(condition=models.Q(models.Q(('action__in', ['retry', 'fix', 'skip', 'abort', 'answer']), ('state', 'resolved')), models.Q(models.Q(('state', 'resolved'), _negated=True), ('action__isnull', True)), _connector='OR'), name='escalation_answer_where_resolved'), models.CheckConstraint(condition=models.Q(models.Q(('instruction__isnull', True), ('task__isnull', False)), models.Q(('instruction__isnull', False), ('task__isnull', True)), _connector='OR'), name='escalation_of_one_subject'), models.CheckConstraint(condition=models.Q(('asked_in__isnull', True), ('reason', 'agent_question'), _connector='OR'), name='escalation_of_agent_is_question'), models.CheckConstraint(condition=models.Q(models.Q(('expires_at__isnull', True), ('on_expiry__isnull', True)), models.Q(('expires_at__isnull', False), ('on_expiry__in', ['retry', 'skip', 'abort', 'fail']), ('on_expiry__isnull', False)), _connector='OR'), name='escalation_expires_somehow'), models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('instruction',), name='escalation_open_once'), models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('task',), name='escalation_of_task_open_once')],
            },
        ),
        migrations.AddIndex(
            model_name='failurepattern',
            index=models.Index(models.OrderBy(models.F('last_seen'), descending=True), models.OrderBy(models.F('id'), descending=True), name='pattern_newest'),
        ),
        migrations.AddConstraint(
            model_name='failurepattern',
            constraint=models.UniqueConstraint(fields=('project', 'fingerprint'), name='pattern_once'),
        ),
        migrations.AddConstraint(
            model_name='failurepattern',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['open', 'ignored', 'resolved', 'regressed'])), name='pattern_state_known'),
        ),
        migrations.AddConstraint(
            model_name='failurepattern',
            constraint=models.CheckConstraint(condition=models.Q(('ignored_until__isnull', True), ('state', 'ignored'), _connector='OR'), name='pattern_until_where_ignored'),
        ),
        migrations.AddIndex(
            model_name='grouped',
            index=models.Index(fields=['pattern', 'at'], include=('agent',), name='grouped_pattern'),
        ),
    ]
