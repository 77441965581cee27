"""The addresses of the pages."""

from django.urls import path

from dashboard.views import (
    activity,
    agent_verbs,
    agents,
    escalations,
    instruction_verbs,
    instructions,
    overview,
    search,
    session,
)

app_name = "dashboard"
urlpatterns = [
    path("", overview.index, name="home"),
    path("sign-in/", session.sign_in, name="sign_in"),
    path("sign-out/", session.sign_out, name="sign_out"),
    path("search/", search.search, name="search"),
    path("instructions/", instructions.index, name="instructions"),
    path("instructions/new/", instruction_verbs.new, name="instruction_new"),
    path("instructions/<uuid:instruction_id>/", instructions.detail, name="instruction"),
    path(
        "instructions/<uuid:instruction_id>/<slug:verb>/",
        instruction_verbs.act,
        name="instruction_act",
    ),
    path("agents/", agents.index, name="agents"),
    path("agents/<uuid:agent_id>/", agents.detail, name="agent"),
    path("agents/<uuid:agent_id>/<slug:verb>/", agent_verbs.act, name="agent_act"),
    path("activity/", activity.index, name="activity"),
    path("escalations/", escalations.index, name="escalations"),
    path("escalations/<uuid:escalation_id>/", escalations.detail, name="escalation"),
    path("escalations/<uuid:escalation_id>/answer/", escalations.answer, name="escalation_answer"),
]
