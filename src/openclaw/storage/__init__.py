"""The database and safe access to files.

`database` is the seam (`Database`, `Migration`), `sqlite` the implementation for one machine, `migrations` the schema
of the state database. For files: `atomic` (replace a file in one step, `JsonFile`), `locks` (`KernelLock`), `digests`
(`Hasher`), `archives` (unpacking untrusted archives), `keys` (secrets of this installation).

Start with `database`.
"""
