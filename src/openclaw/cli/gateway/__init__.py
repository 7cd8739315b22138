"""Commands about the gateway: `group` has the options of running one, `plain` reads the usual ones, `run` runs it;
`control` looks after one in the background, `health` asks it.

Apart, because what a gateway loads stays in its memory for as long as it runs.
"""
