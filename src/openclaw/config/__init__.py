"""Configuration: the file `openclaw.json`, from text to one frozen `Config` and back.

`schema.Config` lists every section; each section's type lives in the package it belongs to. `load.load` reads the
file: `source` parses JSON5, `load` resolves includes, `env` fills in `${NAME}`, `migrate` maps other spellings,
`check` reports every problem at once, `secrets` fetches credentials. `edit.Editor` changes the file in place with
comments kept. `redact` hides credentials, `tree` works on plain data by path, `tools` is the agent's `gateway` tool,
`rpc` the clients' `config.*` methods.

Start with `load.load`, then `edit.Editor`.
"""
