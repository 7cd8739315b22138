"""What people add to an installation, of three kinds: skills, plugins and hooks.

One loader for all three: `find` searches directories and packages, `front_matter` parses the head of a manifest, `gate`
says what of its requirements is missing here, `accepted` records the files people accepted, `install` unpacks, reviews
and places a package, and installs it again. The kinds (`skills`, `plugins`, `plugins.hooks`) say what is theirs alone.

Start with `install`.
"""
