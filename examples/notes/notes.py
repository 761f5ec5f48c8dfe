"""A small notes app: one file of notes per user, kept as JSON."""

import json
import pathlib

FOLDER = pathlib.Path("data")


def load(user):
    path = FOLDER / f"{user}.json"
    return json.loads(path.read_text()) if path.exists() else []


def add(user, text):
    notes = load(user)
    notes.append({"text": text, "done": False})
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{user}.json").write_text(json.dumps(notes))


def open_notes(user):
    return [note for note in load(user) if not note["done"] and len(note["text"]) > 0]
