"""The inputs of the admin's actions that skip tasks."""

from django import forms
from django.contrib.admin.helpers import ActionForm

from retries.states import Dependents


class DependentsForm(ActionForm):
    """The action list with a choice for the dependents of skipped tasks."""

    dependents = forms.ChoiceField(
        required=False, choices=Dependents.choices, label="Dependents of skipped tasks"
    )
    inputs = {"dependents": ("skip", "dismiss")}
