"""People in projects: members, invitations, and the browsers in which they are signed in."""
