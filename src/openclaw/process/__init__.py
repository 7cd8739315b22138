"""Child processes, worker processes, the environment, and supervised tasks.

`child` is the kit for child processes: a question to a program (`ask_program`), a command that is attended
(`wait_for_child`), a process that stays (`start_subprocess`, `end_process`). `group` kills groups and trees, and ties
them to our own life, so they end with us even after `kill -9`. `worker` (`Worker`) and `stdio_rpc` are the two ends
of a helper process for heavy or foreign libraries. `environment` locates the home directory and filters variables;
`tasks` has supervision, timeouts and the system clock.

Start with `child` for commands, with `worker` for helpers.
"""
