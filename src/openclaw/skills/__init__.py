"""Skills: directories with a SKILL.md that teach the agent a task.

`manifest` parses a SKILL.md, `find` finds skills on disk, `gate` decides trust and eligibility (pure), `store` caches,
`accepted` stores what the owner accepted, `catalog` renders the list for the prompt, `invoke` parses `/skill` commands,
`guard` checks a run's tool calls, `install` installs and packs. `SkillService` (`service`) joins these for the runs;
`bundled/` holds the shipped skills.

Start with `find.Skill` and `store.SkillStore.look`.
"""
