"""Budgets of tasks, plans and projects in tokens or dollars, and the prices of models."""
