"""The format of times in the admin, which sort as text and show seconds."""

DATETIME_FORMAT = "Y-m-d H:i:s"
