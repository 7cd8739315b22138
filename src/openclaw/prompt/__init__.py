"""The system prompt: built from facts, reduced to fit the model, reported, archived and compared.

`builder.PromptBuilder` gathers `PromptFacts` (`facts`) for a turn; `build` renders them with `sections/` into a
`Prompt` of labelled `Section`s with a cache boundary; `fit` reduces what is too large. `report` explains a prompt in
numbers, `archive` stores every one sent, `diff` compares two, `lint` finds problems in the inputs.

Start with `facts`, then `build`; `builder` shows where the facts come from.
"""
