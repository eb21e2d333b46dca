"""`mrql shell`: a session in which statements are typed one after the other, and answered at once.

`session` knows what has been defined, and says what an input means; `interpreter` prints it, and has the commands
that begin with a colon. Neither knows of a terminal: `prompt` is the terminal, `piped` what stands in its place where
the input is a file or a pipe. `completion` finds the completions of a word.
"""
