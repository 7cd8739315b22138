"""Models: which one to call, with which credential, and how to call it.

`registry` merges the built-in catalog with the configured providers; `refs` resolves references and aliases;
`credentials` and `profiles` find keys; `failover` decides what follows a failed call; `providers/` speaks the wire
APIs. `ModelSet` (`model_set`) joins them into a snapshot for one turn, `ModelService` (`service`) keeps it current,
and `CallRecorder` (`recording`) stores every call for replay.

Start with `model_set`, then `failover`; the pure modules say so in their first line.
"""
