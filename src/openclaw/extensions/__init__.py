"""What people add to an installation, of three kinds: skills, plugins and hooks.

One loader for all three: `find` searches directories and packages, `front_matter` parses the head of a manifest, `gate`
says what of its requirements is missing here, `install` unpacks, reviews and places a package. `storage.accepted` has
the files people accepted. The kinds (`skills`, `plugins`, `plugins.hooks`) say what is theirs alone, and
`cli/extensions/verbs` has the commands of all three.

Start with `install`.
"""
