import notes


def test_added_notes_are_open(tmp_path, monkeypatch):
    monkeypatch.setattr(notes, "FOLDER", tmp_path)
    notes.add("ada", "buy milk")
    assert [note["text"] for note in notes.open_notes("ada")] == ["buy milk"]
