"""URL patterns of the pages."""

from django.urls import path

from dashboard.activity import export_views as activity_export_views
from dashboard.activity import views as activity_views
from dashboard.agents import action_views as agent_action_views
from dashboard.agents import export_views as agent_export_views
from dashboard.agents import views as agent_views
from dashboard.audit import views as audit_views
from dashboard.completion import views as completion_views
from dashboard.connect import views as connect_views
from dashboard.deadletters import action_views as deadletter_action_views
from dashboard.deadletters import views as deadletter_views
from dashboard.deadletters.listing import DEADLETTERS
from dashboard.escalations import action_views as escalation_action_views
from dashboard.escalations import export_views as escalation_export_views
from dashboard.escalations import views as escalation_views
from dashboard.escalations.groups import views as group_views
from dashboard.insight import action_views as insight_action_views
from dashboard.insight import views as insight_views
from dashboard.instructions import action_views as instruction_action_views
from dashboard.instructions import edit_views as instruction_edit_views
from dashboard.instructions import views as instruction_views
from dashboard.instructions.listing import INSTRUCTIONS
from dashboard.notifications import action_views as notification_action_views
from dashboard.notifications import (
    delivery_action_views,
    example_views,
    message_views,
)
from dashboard.notifications import views as notification_views
from dashboard.notifications.delivery_listing import DELIVERIES
from dashboard.operations import action_views as operation_action_views
from dashboard.operations import start_views as operation_start_views
from dashboard.operations import views as operation_views
from dashboard.operations.listing import OPERATIONS
from dashboard.overview import action_views as overview_action_views
from dashboard.overview import views as overview_views
from dashboard.patterns import action_views as pattern_action_views
from dashboard.patterns import export_views as pattern_export_views
from dashboard.patterns import views as pattern_views
from dashboard.people import action_views as people_action_views
from dashboard.people import views as people_views
from dashboard.plans import action_views as plan_action_views
from dashboard.plans import import_views as plan_import_views
from dashboard.plans import summary_views as plan_summary_views
from dashboard.plans import views as plan_views
from dashboard.plans.listing import PLANS
from dashboard.profile import views as profile_views
from dashboard.saved_views import action_views as saved_view_action_views
from dashboard.search import views as search_views
from dashboard.sessions import action_views as session_action_views
from dashboard.sessions import detail_views as session_detail_views
from dashboard.sessions import import_views as session_import_views
from dashboard.sessions.listing import SESSIONS
from dashboard.settings import policy_views
from dashboard.settings import views as settings_views
from dashboard.sign_in import join_views
from dashboard.sign_in import views as sign_in_views
from dashboard.standing_instructions import action_views as rule_action_views
from dashboard.standing_instructions import form_views as rule_form_views
from dashboard.standing_instructions import views as rule_views
from dashboard.standing_instructions.listing import RULES
from dashboard.tasks import action_views as task_action_views
from dashboard.tasks import context_views as task_context_views
from dashboard.tasks import export_views as task_export_views
from dashboard.tasks import views as task_views
from dashboard.tokens import views as token_views

app_name = "dashboard"
urlpatterns = [
    path("", overview_views.index, name="home"),
    path("first-steps/", overview_action_views.set_first_steps, name="first_steps"),
    path("sign-in/", sign_in_views.sign_in, name="sign_in"),
    path("join/<str:secret>/", join_views.join, name="join"),
    path("sign-out/", sign_in_views.sign_out, name="sign_out"),
    path("search/", search_views.search, name="search"),
    path("complete/<slug:noun>/", completion_views.complete, name="complete"),
    path("views/<slug:noun>/save/", saved_view_action_views.save, name="view_save"),
    path("views/<uuid:view_id>/delete/", saved_view_action_views.delete, name="view_delete"),
    path("instructions/", INSTRUCTIONS.index, name="instructions"),
    path(
        "instructions/export/<slug:form>/",
        INSTRUCTIONS.export,
        name="instructions_export",
    ),
    path("instructions/new/", instruction_action_views.new, name="instruction_new"),
    path("instructions/standing/", RULES.index, name="rules"),
    path("instructions/standing/export/<slug:form>/", RULES.export, name="rules_export"),
    path("instructions/standing/new/", rule_form_views.new, name="rule_new"),
    path("instructions/standing/<uuid:rule_id>/", rule_views.detail, name="rule"),
    path("instructions/standing/<uuid:rule_id>/edit/", rule_form_views.edit, name="rule_edit"),
    path(
        "instructions/standing/<uuid:rule_id>/<slug:verb>/", rule_action_views.act, name="rule_act"
    ),
    path("instructions/<uuid:instruction_id>/", instruction_views.detail, name="instruction"),
    path(
        "instructions/<uuid:instruction_id>/edit/",
        instruction_edit_views.edit,
        name="instruction_edit",
    ),
    path(
        "instructions/<uuid:instruction_id>/<slug:verb>/",
        instruction_action_views.act,
        name="instruction_act",
    ),
    path("tasks/", task_views.index, name="tasks"),
    path("tasks/export/<slug:form>/", task_export_views.export, name="tasks_export"),
    path("tasks/<uuid:task_id>/", task_views.detail, name="task"),
    path("tasks/<uuid:task_id>/contexts/", task_context_views.index, name="task_contexts"),
    path("tasks/<uuid:task_id>/<slug:verb>/", task_action_views.act, name="task_act"),
    path("plans/", PLANS.index, name="plans"),
    path("plans/export/<slug:form>/", PLANS.export, name="plans_export"),
    path("plans/import/", plan_import_views.new, name="plan_import"),
    path("plans/<uuid:plan_id>/", plan_views.detail, name="plan"),
    path("plans/<str:ref>/", plan_views.by_ref, name="plan_by_ref"),
    path("plans/<uuid:plan_id>/commands/", plan_action_views.confirm, name="plan_commands"),
    path("plans/<str:plan>/summary/", plan_summary_views.detail, name="plan_summary"),
    path("dead-letters/", DEADLETTERS.index, name="deadletters"),
    path(
        "dead-letters/export/<slug:form>/",
        DEADLETTERS.export,
        name="deadletters_export",
    ),
    path("dead-letters/<uuid:letter_id>/", deadletter_views.detail, name="deadletter"),
    path(
        "dead-letters/<uuid:letter_id>/<slug:verb>/",
        deadletter_action_views.act,
        name="deadletter_act",
    ),
    path("patterns/", pattern_views.index, name="patterns"),
    path("patterns/export/<slug:form>/", pattern_export_views.export, name="patterns_export"),
    path("patterns/<slug:verb>/all/", pattern_action_views.act_on_many, name="patterns_act"),
    path("patterns/<uuid:pattern_id>/", pattern_views.detail, name="pattern"),
    path(
        "patterns/<uuid:pattern_id>/fix/<slug:verb>/",
        pattern_action_views.judge_fix,
        name="pattern_fix",
    ),
    path("patterns/<uuid:pattern_id>/<slug:verb>/", pattern_action_views.act, name="pattern_act"),
    path("agents/", agent_views.index, name="agents"),
    path("agents/export/<slug:form>/", agent_export_views.export, name="agents_export"),
    path("agents/connect/", connect_views.index, name="connect"),
    path("agents/connect/<uuid:token_id>/", connect_views.token, name="connect_token"),
    path("agents/connect/<uuid:token_id>/light/", connect_views.light, name="connect_light"),
    path("agents/<uuid:agent_id>/", agent_views.detail, name="agent"),
    path("agents/<uuid:agent_id>/<slug:verb>/", agent_action_views.act, name="agent_act"),
    path("sessions/", SESSIONS.index, name="sessions"),
    path("sessions/export/<slug:form>/", SESSIONS.export, name="sessions_export"),
    path("sessions/import/", session_import_views.new, name="session_import"),
    path("sessions/<uuid:session_id>/", session_detail_views.detail, name="session"),
    path(
        "sessions/<uuid:session_id>/messages/<int:number>/",
        session_detail_views.message,
        name="session_message",
    ),
    path("sessions/<uuid:session_id>/flush/", session_action_views.flush, name="session_flush"),
    path("sessions/<uuid:session_id>/retry/", session_action_views.retry, name="session_retry"),
    path(
        "sessions/<uuid:session_id>/to-dos/<int:order>/task/",
        session_action_views.make_task,
        name="session_task",
    ),
    path("activity/", activity_views.index, name="activity"),
    path("activity/export/<slug:form>/", activity_export_views.export, name="activity_export"),
    path("insight/", insight_views.index, name="insight"),
    path("insight/targets/", insight_action_views.set_ack_target, name="target_set"),
    path("insight/experiments/", insight_action_views.start, name="experiment_start"),
    path(
        "insight/experiments/<uuid:experiment_id>/end/",
        insight_action_views.end,
        name="experiment_end",
    ),
    path("operations/", OPERATIONS.index, name="operations"),
    path("operations/export/<slug:form>/", OPERATIONS.export, name="operations_export"),
    path("operations/new/<str:verb_name>/", operation_start_views.new, name="operation_new"),
    path("operations/<uuid:operation_id>/", operation_views.detail, name="operation"),
    path(
        "operations/<uuid:operation_id>/<slug:verb>/",
        operation_action_views.act,
        name="operation_act",
    ),
    path("settings/", settings_views.index, name="settings"),
    path("settings/audit/", audit_views.index, name="audit"),
    path("settings/audit/export/<slug:form>/", audit_views.export, name="audit_export"),
    path("settings/people/", people_views.index, name="people"),
    path(
        "settings/people/members/<uuid:member_id>/<slug:verb>/",
        people_action_views.act,
        name="member_act",
    ),
    path("settings/people/invitations/", people_action_views.invite, name="invite"),
    path(
        "settings/people/invitations/<uuid:invitation_id>/revoke/",
        people_action_views.revoke_invitation,
        name="invitation_revoke",
    ),
    path(
        "settings/people/invitations/<uuid:invitation_id>/again/",
        people_action_views.invite_again,
        name="invitation_again",
    ),
    path(
        "settings/people/browsers/end-person/",
        people_action_views.end_person,
        name="browsers_end_person",
    ),
    path(
        "settings/people/browsers/end-others/",
        people_action_views.end_others,
        name="browsers_end_others",
    ),
    path(
        "settings/people/browsers/<uuid:sign_in_id>/end/",
        people_action_views.end_browser,
        name="browser_end",
    ),
    path("settings/tokens/", token_views.index, name="tokens"),
    path("settings/tokens/new/", token_views.create, name="token_new"),
    path("settings/tokens/<uuid:token_id>/use/", token_views.use, name="token_use"),
    path("settings/tokens/<uuid:token_id>/<slug:verb>/", token_views.act, name="token_act"),
    path("settings/profile/", profile_views.index, name="profile"),
    path("settings/profile/save/", profile_views.save, name="profile_save"),
    path("settings/profile/password/", profile_views.change_password, name="profile_password"),
    path("settings/policies/", policy_views.index, name="policies"),
    path("settings/policies/<slug:name>/", policy_views.switch, name="policy_switch"),
    path("settings/notifications/", notification_views.index, name="notifications"),
    path(
        "settings/notifications/rules/",
        notification_action_views.save_rule,
        name="notification_rule",
    ),
    path(
        "settings/notifications/rules/said/",
        notification_views.preview,
        name="notification_rule_preview",
    ),
    path(
        "settings/notifications/rules/example/",
        example_views.of_form,
        name="notification_example",
    ),
    path(
        "settings/notifications/rules/<uuid:rule_id>/example/",
        example_views.of_rule,
        name="notification_rule_example",
    ),
    path(
        "settings/notifications/rules/check/",
        notification_views.check,
        name="notification_rule_check",
    ),
    path(
        "settings/notifications/rules/<uuid:rule_id>/preview/",
        message_views.index,
        name="notification_preview",
    ),
    path(
        "settings/notifications/rules/<uuid:rule_id>/<slug:verb>/",
        notification_action_views.act_on_rule,
        name="notification_rule_act",
    ),
    path(
        "settings/notifications/channels/",
        notification_action_views.save_channel,
        name="notification_channel",
    ),
    path(
        "settings/notifications/channels/<uuid:channel_id>/<slug:verb>/",
        notification_action_views.act_on_channel,
        name="notification_channel_act",
    ),
    path(
        "settings/notifications/quiet-hours/",
        notification_action_views.save_quiet_hours,
        name="notification_quiet",
    ),
    path("settings/deliveries/", DELIVERIES.index, name="deliveries"),
    path(
        "settings/deliveries/export/<slug:form>/",
        DELIVERIES.export,
        name="deliveries_export",
    ),
    path(
        "settings/deliveries/redeliver/",
        delivery_action_views.redeliver,
        name="deliveries_redeliver",
    ),
    path("escalations/", escalation_views.index, name="escalations"),
    path(
        "escalations/export/<slug:form>/", escalation_export_views.export, name="escalations_export"
    ),
    path("escalations/answer-all/", group_views.answer_all, name="escalations_answer_all"),
    path(
        "escalations/answer-all/<uuid:operation_id>/undo/",
        group_views.undo_all,
        name="escalations_undo_all",
    ),
    path("escalations/<uuid:escalation_id>/", escalation_views.detail, name="escalation"),
    path(
        "escalations/<uuid:escalation_id>/answer/",
        escalation_action_views.answer,
        name="escalation_answer",
    ),
    path(
        "escalations/<uuid:escalation_id>/undo/",
        escalation_action_views.undo,
        name="escalation_undo",
    ),
    path(
        "escalations/<uuid:escalation_id>/remark/",
        escalation_action_views.comment,
        name="escalation_comment",
    ),
    path(
        "escalations/<uuid:escalation_id>/care/",
        escalation_action_views.assign,
        name="escalation_assign",
    ),
    path(
        "escalations/<uuid:escalation_id>/snooze/",
        escalation_action_views.snooze,
        name="escalation_snooze",
    ),
    path(
        "escalations/<uuid:escalation_id>/preview/",
        escalation_action_views.preview,
        name="escalation_preview",
    ),
    # last, because it matches every page of a plan
    path("plans/<uuid:plan_id>/<slug:verb>/", plan_action_views.act, name="plan_act"),
]
