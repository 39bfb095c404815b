"""The OpenAPI document, made from the table of routes and the classes of messages.

`openapi` writes it, and `openapi_examples` has a good value for each needed parameter and each body. What matters:
the file under version control has the same bytes (`make reference`), and tests send every example.

Imports the routes and what they stand on. No I/O.
"""
