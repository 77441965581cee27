"""All pages and actions, each with its address, view, name, and permission."""

from django.urls import path

from dashboard.activity import export_views as activity_exports
from dashboard.activity import marker_views as activity_markers
from dashboard.activity import views as activity
from dashboard.agents import action_views as agent_actions
from dashboard.agents import views as agents
from dashboard.agents.listing import AGENTS
from dashboard.audit import views as audit
from dashboard.completion import views as completion
from dashboard.connect import views as connect
from dashboard.deadletters import action_views as deadletter_actions
from dashboard.deadletters import views as deadletters
from dashboard.deadletters.listing import DEADLETTERS
from dashboard.escalations import action_views as escalation_actions
from dashboard.escalations import export_views as escalation_exports
from dashboard.escalations import views as escalations
from dashboard.escalations.groups import views as groups
from dashboard.frame.access import action, form, list_pages, page
from dashboard.insight import action_views as insight_actions
from dashboard.insight import views as insight
from dashboard.instructions import action_views as instruction_actions
from dashboard.instructions import edit_views as instruction_edits
from dashboard.instructions import views as instructions
from dashboard.instructions.listing import INSTRUCTIONS
from dashboard.limits import views as limits
from dashboard.notifications import action_views as notification_actions
from dashboard.notifications import delivery_action_views as delivery_actions
from dashboard.notifications import example_views as examples
from dashboard.notifications import message_views as messages
from dashboard.notifications import views as notifications
from dashboard.notifications.delivery_listing import DELIVERIES
from dashboard.on_call import views as on_call
from dashboard.operations import action_views as operation_actions
from dashboard.operations import start_views as operation_starts
from dashboard.operations import stop_views as agent_stops
from dashboard.operations import views as operations
from dashboard.operations.listing import OPERATIONS
from dashboard.overview import action_views as overview_actions
from dashboard.overview import views as overview
from dashboard.patterns import action_views as pattern_actions
from dashboard.patterns import views as patterns
from dashboard.patterns.listing import PATTERNS
from dashboard.people import action_views as people_actions
from dashboard.people import views as people
from dashboard.permissions import form_views as permission_forms
from dashboard.permissions import views as permissions
from dashboard.permissions.listing import PERMISSION_RULES
from dashboard.plans import action_views as plan_actions
from dashboard.plans import import_views as plan_imports
from dashboard.plans import summary_views as plan_summaries
from dashboard.plans import views as plans
from dashboard.plans.listing import PLANS
from dashboard.pools import action_views as pool_actions
from dashboard.pools import views as pools
from dashboard.profile import views as profile
from dashboard.saved_views import action_views as saved_views
from dashboard.saved_views import columns as list_columns
from dashboard.search import views as search
from dashboard.sessions import action_views as session_actions
from dashboard.sessions import detail_views as session_details
from dashboard.sessions import import_views as session_imports
from dashboard.sessions.listing import SESSIONS
from dashboard.settings import budget_views as budgets
from dashboard.settings import policy_views as policies
from dashboard.settings import views as settings
from dashboard.sign_in import join_views as join
from dashboard.sign_in import views as sign_in
from dashboard.standing_instructions import action_views as rule_actions
from dashboard.standing_instructions import form_views as rule_forms
from dashboard.standing_instructions import views as rules
from dashboard.standing_instructions.listing import RULES
from dashboard.tasks import action_views as task_actions
from dashboard.tasks import context_views as task_contexts
from dashboard.tasks import export_views as task_exports
from dashboard.tasks import output_views as task_outputs
from dashboard.tasks import views as tasks
from dashboard.tasks.forms import new_task_views as new_tasks
from dashboard.tasks.forms import retry_views as task_retries
from dashboard.tasks.forms import type_views as task_types
from dashboard.tasks.spans import views as task_spans
from dashboard.tokens import views as tokens
from ledger.authorization.permissions import ENTER

app_name = "dashboard"
# `path` alone declares a page for people without an account.
urlpatterns = [
    page("", overview.index, "home", "ledger.view_event", replica=True),
    action("first-steps/", overview_actions.set_first_steps, "first_steps", ENTER),
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("join/<str:secret>/", join.join, name="join"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    page("search/", search.search, "search", ENTER, replica=True),
    page("complete/<slug:noun>/", completion.complete, "complete", ENTER),
    action("views/<slug:noun>/save/", saved_views.save, "view_save", "ledger.add_savedview"),
    action("views/<uuid:view_id>/delete/", saved_views.delete,
        "view_delete", "ledger.delete_savedview"),
    action("columns/<slug:noun>/", list_columns.save, "list_columns", ENTER),
    *INSTRUCTIONS.pages("instructions/", replica=True),
    form("instructions/new/", instruction_actions.new, "instruction_new", "ledger.add_instruction"),
    *RULES.pages("instructions/standing/"),
    form("instructions/standing/new/", rule_forms.new,
        "rule_new", "ledger.add_standinginstruction"),
    page("instructions/standing/<uuid:rule_id>/", rules.detail,
        "rule", "ledger.view_standinginstruction"),
    form("instructions/standing/<uuid:rule_id>/edit/", rule_forms.edit,
        "rule_edit", "ledger.change_standinginstruction"),
    action("instructions/standing/<uuid:rule_id>/<slug:verb>/", rule_actions.act,
        "rule_act", "ledger.change_standinginstruction"),
    page("instructions/<uuid:instruction_id>/", instructions.detail,
        "instruction", "ledger.view_instruction"),
    form("instructions/<uuid:instruction_id>/edit/", instruction_edits.edit,
        "instruction_edit", "ledger.change_instruction"),
    action("instructions/<uuid:instruction_id>/<slug:verb>/", instruction_actions.act,
        "instruction_act", "ledger.change_instruction"),
    *list_pages("tasks/", tasks.index, task_exports.export,
        "tasks", "ledger.view_task", replica=True),
    page("tasks/types/", task_types.index, "task_types", "ledger.view_task"),
    action("tasks/types/<slug:verb>/", task_types.act, "task_type_act", "ledger.change_task"),
    form("tasks/new/", new_tasks.new, "task_new", "ledger.add_task"),
    page("tasks/<uuid:task_id>/", tasks.detail, "task", "ledger.view_task"),
    page("tasks/<uuid:task_id>/contexts/", task_contexts.index,
        "task_contexts", "ledger.view_task"),
    page("tasks/<uuid:task_id>/attempts/<int:number>/output/", task_outputs.read,
        "task_output", "ledger.view_task"),
    page("tasks/<uuid:task_id>/spans/<int:number>/", task_spans.index,
        "task_spans", "ledger.view_task"),
    form("tasks/<uuid:task_id>/change-and-retry/", task_retries.edit,
        "task_retry", "ledger.change_task"),
    action("tasks/<uuid:task_id>/<slug:verb>/", task_actions.act, "task_act", "ledger.change_task"),
    *PLANS.pages("plans/", replica=True),
    form("plans/import/", plan_imports.new, "plan_import", "ledger.add_plan"),
    page("plans/<uuid:plan_id>/", plans.detail, "plan", "ledger.view_plan"),
    page("plans/<str:ref>/", plans.by_ref, "plan_by_ref", "ledger.view_plan"),
    action("plans/<uuid:plan_id>/commands/", plan_actions.confirm,
        "plan_commands", "ledger.change_plan"),
    page("plans/<str:plan>/summary/", plan_summaries.detail, "plan_summary", "ledger.view_plan"),
    *DEADLETTERS.pages("dead-letters/", replica=True),
    page("dead-letters/<uuid:letter_id>/", deadletters.detail,
        "deadletter", "ledger.view_deadletter"),
    action("dead-letters/<uuid:letter_id>/<slug:verb>/", deadletter_actions.act,
        "deadletter_act", "ledger.change_deadletter"),
    *PATTERNS.pages("patterns/", replica=True),
    action("patterns/<slug:verb>/all/", pattern_actions.act_on_many,
        "patterns_act", "retries.change_failurepattern"),
    page("patterns/<uuid:pattern_id>/", patterns.detail, "pattern", "retries.view_failurepattern"),
    action("patterns/<uuid:pattern_id>/fix/<slug:verb>/", pattern_actions.judge_fix,
        "pattern_fix", "retries.change_failurepattern"),
    action("patterns/<uuid:pattern_id>/<slug:verb>/", pattern_actions.act,
        "pattern_act", "retries.change_failurepattern"),
    *AGENTS.pages("agents/", replica=True),
    page("agents/connect/", connect.index, "connect", "ledger.view_agent"),
    form("agents/connect/<uuid:token_id>/", connect.token, "connect_token", "ledger.add_token"),
    page("agents/connect/<uuid:token_id>/light/", connect.light,
        "connect_light", "ledger.add_token"),
    page("agents/pools/", pools.index, "pools", "ledger.view_agent", replica=True),
    action("agents/pools/new/", pool_actions.create, "pool_new", "ledger.add_agent"),
    page("agents/pools/<uuid:pool_id>/", pools.detail, "pool", "ledger.view_agent"),
    action("agents/pools/<uuid:pool_id>/<slug:verb>/", pool_actions.act,
        "pool_act", "ledger.change_agent"),
    page("agents/<uuid:agent_id>/", agents.detail, "agent", "ledger.view_agent"),
    form("agents/<uuid:agent_id>/stop/", agent_stops.stop, "agent_stop", "ledger.change_agent"),
    action("agents/<uuid:agent_id>/stop/undo/", agent_stops.undo,
        "agent_stop_undo", "ledger.change_agent"),
    action("agents/<uuid:agent_id>/<slug:verb>/", agent_actions.act,
        "agent_act", "ledger.change_agent"),
    *SESSIONS.pages("sessions/", replica=True),
    form("sessions/import/", session_imports.new, "session_import", "ledger.add_session"),
    page("sessions/<uuid:session_id>/", session_details.detail, "session", "ledger.view_session"),
    page("sessions/<uuid:session_id>/messages/<int:number>/", session_details.message,
        "session_message", "ledger.view_session"),
    form("sessions/<uuid:session_id>/flush/", session_actions.flush,
        "session_flush", "ledger.change_session"),
    action("sessions/<uuid:session_id>/retry/", session_actions.retry,
        "session_retry", "ledger.change_session"),
    form("sessions/<uuid:session_id>/to-dos/<int:order>/task/", session_actions.make_task,
        "session_task", "ledger.add_task"),
    *list_pages("activity/", activity.index, activity_exports.export,
        "activity", "ledger.view_event", replica=True),
    action("markers/<uuid:marker_id>/delete/", activity_markers.delete,
        "marker_delete", "ledger.delete_marker"),
    page("limits/", limits.index, "limits", "ledger.view_agent", replica=True),
    *list_pages("insight/", insight.index, insight.export,
        "insight", "retries.view_contextexperiment", replica=True),
    action("insight/targets/", insight_actions.set_target,
        "target_set", "retries.change_acktarget"),
    action("insight/experiments/", insight_actions.start,
        "experiment_start", "retries.add_contextexperiment"),
    action("insight/experiments/<uuid:experiment_id>/end/", insight_actions.end,
        "experiment_end", "retries.change_contextexperiment"),
    *OPERATIONS.pages("operations/"),
    form("operations/new/<str:verb_name>/", operation_starts.new,
        "operation_new", "retries.add_operation"),
    page("operations/<uuid:operation_id>/", operations.detail,
        "operation", "retries.view_operation"),
    action("operations/<uuid:operation_id>/<slug:verb>/", operation_actions.act,
        "operation_act", "retries.change_operation"),
    page("settings/", settings.index, "settings", ENTER),
    *list_pages("settings/audit/", audit.index, audit.export,
        "audit", "ledger.view_event", replica=True),
    page("settings/people/", people.index, "people", "ledger.view_membership"),
    action("settings/people/members/<uuid:member_id>/<slug:verb>/", people_actions.act,
        "member_act", "ledger.change_membership"),
    form("settings/people/invitations/", people_actions.invite, "invite", "ledger.add_invitation"),
    action("settings/people/invitations/<uuid:invitation_id>/revoke/",
        people_actions.revoke_invitation, "invitation_revoke", "ledger.change_invitation"),
    form("settings/people/invitations/<uuid:invitation_id>/again/", people_actions.invite_again,
        "invitation_again", "ledger.add_invitation"),
    action("settings/people/browsers/end-person/", people_actions.end_person,
        "browsers_end_person", "ledger.change_membership"),
    action("settings/people/browsers/end-others/", people_actions.end_others,
        "browsers_end_others", ENTER),
    action("settings/people/browsers/<uuid:sign_in_id>/end/", people_actions.end_browser,
        "browser_end", ENTER),
    page("settings/tokens/", tokens.index, "tokens", "ledger.view_token"),
    form("settings/tokens/new/", tokens.create, "token_new", "ledger.add_token"),
    page("settings/tokens/<uuid:token_id>/use/", tokens.use, "token_use", "ledger.add_token"),
    form("settings/tokens/<uuid:token_id>/<slug:verb>/", tokens.act,
        "token_act", "ledger.change_token"),
    page("settings/profile/", profile.index, "profile", ENTER),
    action("settings/profile/save/", profile.save, "profile_save", ENTER),
    form("settings/profile/password/", profile.change_password, "profile_password", ENTER),
    *PERMISSION_RULES.pages("settings/permissions/"),
    form("settings/permissions/new/", permission_forms.new,
        "permission_rule_new", "retries.add_permissionrule"),
    action("settings/permissions/dismiss/", permissions.dismiss,
        "permission_rule_dismiss", "retries.add_permissionrule"),
    page("settings/permissions/<uuid:permission_rule_id>/", permissions.detail,
        "permission_rule", "retries.view_permissionrule"),
    action("settings/permissions/<uuid:permission_rule_id>/<slug:verb>/", permissions.act,
        "permission_rule_act", "retries.change_permissionrule"),
    page("settings/policies/", policies.index, "policies", "retries.view_retrypolicy"),
    action("settings/policies/reasons/", policies.require_reasons,
        "policy_reasons", "retries.change_retrypolicy"),
    action("settings/policies/search-keys/", policies.declare_keys,
        "policy_search_keys", "retries.change_retrypolicy"),
    action("settings/policies/<slug:name>/", policies.switch,
        "policy_switch", "retries.change_retrypolicy"),
    page("settings/on-call/", on_call.index, "on_call", "retries.view_escalationpolicy"),
    form("settings/on-call/<slug:name>/", on_call.save,
        "on_call_save", "retries.change_escalationpolicy"),
    action("settings/on-call/<slug:name>/<uuid:row_id>/delete/", on_call.delete,
        "on_call_delete", "retries.change_escalationpolicy"),
    page("settings/budgets/", budgets.index, "budgets", "ledger.view_budget"),
    form("settings/budgets/save/", budgets.save, "budget_save", "ledger.change_budget"),
    action("settings/budgets/prices/save/", budgets.save_price,
        "price_save", "ledger.change_modelprice"),
    action("settings/budgets/prices/<uuid:price_id>/remove/", budgets.remove_price,
        "price_remove", "ledger.change_modelprice"),
    action("settings/budgets/<uuid:budget_id>/<slug:verb>/", budgets.act,
        "budget_act", "ledger.change_budget"),
    page("settings/notifications/", notifications.index, "notifications", "retries.view_channel"),
    form("settings/notifications/rules/", notification_actions.save_rule,
        "notification_rule", "retries.change_notificationrule"),
    action("settings/notifications/rules/said/", notifications.preview,
        "notification_rule_preview", "retries.change_notificationrule"),
    form("settings/notifications/rules/example/", examples.of_form,
        "notification_example", "retries.change_notificationrule"),
    action("settings/notifications/rules/<uuid:rule_id>/example/", examples.of_rule,
        "notification_rule_example", "retries.change_notificationrule"),
    form("settings/notifications/rules/check/", notifications.check,
        "notification_rule_check", "retries.change_notificationrule"),
    page("settings/notifications/rules/<uuid:rule_id>/preview/", messages.index,
        "notification_preview", "retries.view_notificationrule"),
    action("settings/notifications/rules/<uuid:rule_id>/<slug:verb>/",
        notification_actions.act_on_rule,
        "notification_rule_act", "retries.change_notificationrule"),
    form("settings/notifications/channels/", notification_actions.save_channel,
        "notification_channel", "retries.change_channel"),
    form("settings/notifications/channels/<uuid:channel_id>/<slug:verb>/",
        notification_actions.act_on_channel, "notification_channel_act", "retries.change_channel"),
    form("settings/notifications/quiet-hours/", notification_actions.save_quiet_hours,
        "notification_quiet", ENTER),
    *DELIVERIES.pages("settings/deliveries/", replica=True),
    action("settings/deliveries/redeliver/", delivery_actions.redeliver,
        "deliveries_redeliver", "retries.change_delivery"),
    *list_pages("escalations/", escalations.index, escalation_exports.export,
        "escalations", "retries.view_escalation"),
    form("escalations/answer-all/", groups.answer_all,
        "escalations_answer_all", "retries.change_escalation"),
    page("escalations/<uuid:escalation_id>/", escalations.detail,
        "escalation", "retries.view_escalation"),
    form("escalations/<uuid:escalation_id>/answer/", escalation_actions.answer,
        "escalation_answer", "retries.change_escalation"),
    form("escalations/<uuid:escalation_id>/undo/", escalation_actions.undo,
        "escalation_undo", "retries.change_escalation"),
    action("escalations/<uuid:escalation_id>/remark/", escalation_actions.comment,
        "escalation_comment", "retries.change_escalation"),
    action("escalations/<uuid:escalation_id>/care/", escalation_actions.assign,
        "escalation_assign", "retries.change_escalation"),
    action("escalations/<uuid:escalation_id>/snooze/", escalation_actions.snooze,
        "escalation_snooze", "retries.change_escalation"),
    action("escalations/<uuid:escalation_id>/preview/", escalation_actions.preview,
        "escalation_preview", "retries.view_escalation"),
    # last, because it matches every page of a plan
    action("plans/<uuid:plan_id>/<slug:verb>/", plan_actions.act, "plan_act", "ledger.change_plan"),
]  # fmt: skip
