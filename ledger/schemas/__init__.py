"""The API's schemas: one module per noun."""
