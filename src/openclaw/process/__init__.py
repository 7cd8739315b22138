"""Child processes, worker processes, the environment, and supervised tasks.

`child` starts a command and collects its output (`wait_for_child`), `group` kills process groups, `environment` locates
the home directory and filters variables. `worker` (`Worker`) and `stdio_rpc` are the two ends of a helper process for
heavy or foreign libraries. `tasks` has supervision, timeouts and the system clock.

Start with `child` for commands, with `worker` for helpers.
"""
