"""Commands of the first minutes: a home and its questions, a model, the shell's completion.

`onboard` asks what a new home needs, `model_setup` connects a model and tries it, `login` signs in at a provider,
`model_home` reads which models a home has, `completion` completes command lines. Start with `onboard`.
"""
