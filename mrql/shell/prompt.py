"""The terminal: several lines at a time, with their history, and completion with Tab."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from mrql.algebra.errors import MrqlError
from mrql.output.terminal import say
from mrql.shell.completion import completed
from mrql.shell.definitions import Definitions
from mrql.shell.interpreter import Interpreter, Quit
from mrql.shell.statement_reader import COMMAND, is_finished

PROMPT = "mrql> "
CONTINUED = " ...> "


def run_terminal(interpreter: Interpreter, history: Path | None) -> None:
    """Reads inputs and has them answered until Ctrl-D or `:quit`; an error in one does not end the session."""
    reader: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        history=_history(history),
        completer=SessionCompleter(interpreter.session.definitions),
        complete_while_typing=False,
        key_bindings=_keys(),
    )
    while True:
        try:
            text = reader.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            interpreter.submit(text)
        except Quit:
            return
        except MrqlError as error:
            say(str(error), err=True)
        except KeyboardInterrupt:
            say("interrupted", err=True)
        except Exception:  # a fault of mrql is shown, but does not end the session and its definitions
            traceback.print_exc()


def history_file() -> Path | None:
    """The file of this user's history, by the conventions of the system; None where there is no place for it."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    else:
        base = os.environ.get("XDG_STATE_HOME", "")
        # A relative path is to be ignored, says the XDG specification.
        base = base if os.path.isabs(base) else os.path.expanduser("~/.local/state")
    return Path(base, "mrql", "history") if os.path.isabs(base) else None


def _history(file: Path | None) -> History:
    """A history in a file, or for this session only where no file can be written."""
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _end_or_go_on(event: KeyPressEvent) -> None:
        """Accepts an input that is finished; begins a new line of one that is not."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _go_on(event: KeyPressEvent) -> None:
        """Begins a new line in any case."""
        event.current_buffer.insert_text("\n")

    return keys


class SessionCompleter(Completer):
    """Completes what a session knows, and the paths of files to load."""

    def __init__(self, known: Definitions) -> None:
        self.known = known
        self.paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        command = COMMAND.match(document.text)
        if command is not None and command[1] == "load" and document.cursor_position >= command.end():
            path = document.text_before_cursor[command.end() :]
            yield from self.paths.get_completions(Document(path), complete_event)
            return
        found = completed(document.text, document.cursor_position, self.known)
        for candidate in found.candidates:
            yield Completion(candidate.text, found.start - document.cursor_position, display_meta=candidate.about)
