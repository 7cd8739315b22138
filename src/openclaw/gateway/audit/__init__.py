"""The security audit: dangers in settings and files, each with its reason and the command that mends it.

`catalog` lists every check, `settings_checks` judges a configuration, `file_checks` looks at the disk, and `service`
runs them for `openclaw security audit`, for `security.audit` and for the page. Start with `service.audit`.
"""
