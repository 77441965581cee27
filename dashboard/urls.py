"""The addresses of the pages."""

from django.urls import path

from dashboard.views import (
    activity,
    agent_verbs,
    agents,
    deadletter_verbs,
    deadletters,
    escalations,
    instruction_verbs,
    instructions,
    overview,
    search,
    session,
    task_verbs,
    tasks,
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
    path("tasks/", tasks.index, name="tasks"),
    path("tasks/<slug:verb>/all/", task_verbs.act_on_many, name="tasks_act"),
    path("tasks/<uuid:task_id>/", tasks.detail, name="task"),
    path("tasks/<uuid:task_id>/<slug:verb>/", task_verbs.act, name="task_act"),
    path("dead-letters/", deadletters.index, name="deadletters"),
    path("dead-letters/<slug:verb>/all/", deadletter_verbs.act_on_many, name="deadletters_act"),
    path("dead-letters/<uuid:letter_id>/", deadletters.detail, name="deadletter"),
    path("dead-letters/<uuid:letter_id>/<slug:verb>/", deadletter_verbs.act, name="deadletter_act"),
    path("agents/", agents.index, name="agents"),
    path("agents/<uuid:agent_id>/", agents.detail, name="agent"),
    path("agents/<uuid:agent_id>/<slug:verb>/", agent_verbs.act, name="agent_act"),
    path("activity/", activity.index, name="activity"),
    path("escalations/", escalations.index, name="escalations"),
    path("escalations/<uuid:escalation_id>/", escalations.detail, name="escalation"),
    path("escalations/<uuid:escalation_id>/answer/", escalations.answer, name="escalation_answer"),
    path("escalations/<uuid:escalation_id>/undo/", escalations.undo, name="escalation_undo"),
    path("escalations/<uuid:escalation_id>/remark/", escalations.remark, name="escalation_remark"),
    path("escalations/<uuid:escalation_id>/care/", escalations.care, name="escalation_care"),
    path(
        "escalations/<uuid:escalation_id>/preview/",
        escalations.preview,
        name="escalation_preview",
    ),
]
