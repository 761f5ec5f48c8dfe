//! The core knows no process: the words of a novel are data of the pack `foreman`, not names or texts in `src`.

use std::fs;

use crate::support::{files_below, repository};

/// Words of the pack `foreman`, in the singular.
const NOVEL_WORDS: [&str; 18] = [
    "antipattern",
    "beat",
    "chapter",
    "foreshadowing",
    "genre",
    "manuscript",
    "notebook",
    "novel",
    "novelist",
    "plot",
    "pov",
    "protagonist",
    "scaffold",
    "scene",
    "story",
    "tournament",
    "voice",
    "writer",
];

/// The typed interface of Universal Agent Instruction Architecture, section 10. Its names are those of that document.
const FACADE: &str = "src/compose/assembler.rs";

/// Files in which a word has its ordinary meaning: the writer of a format or a file, the beat of a heartbeat.
const ORDINARY_USES: [(&str, &str); 10] = [
    ("src/agent/http/send.rs", "writer"),
    ("src/models/prompt.rs", "writer"),
    ("src/models/prompt_xml.rs", "writer"),
    ("src/ops/git/pipes.rs", "writer"),
    ("src/orchestrator/turn/call.rs", "beat"),
    ("src/orchestrator/turn/session.rs", "beat"),
    ("src/secret.rs", "writer"),
    ("src/store/sqlite.rs", "writer"),
    ("src/store/sqlite/open.rs", "writer"),
    ("src/text/xml/write.rs", "writer"),
];

/// Returns the words of a text in lower case; `snake_case` and `CamelCase` names are split.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut previous_is_lower = false;

    for c in text.chars() {
        let is_start = c.is_uppercase() && previous_is_lower;
        if (is_start || !c.is_alphabetic()) && !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
        previous_is_lower = c.is_lowercase();
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

/// Returns true if a word is only a name in the code, such as `BufWriter`: the line is no comment and has no text.
fn is_name_of_a_writer(word: &str, line: &str) -> bool {
    word == "writer" && !line.trim_start().starts_with("//") && !line.contains('"')
}

/// Returns the word of the novel that a word is, in the singular or the plural.
fn novel_word(word: &str) -> Option<&'static str> {
    NOVEL_WORDS.into_iter().find(|novel| {
        let plural = word.strip_prefix(novel).is_some_and(|rest| rest == "s");
        word == *novel || plural || (*novel == "story" && word == "stories")
    })
}

#[test]
fn sources_have_no_word_of_the_novel() {
    let root = repository().join("src");
    let mut wrong = Vec::new();
    let mut used = Vec::new();
    let mut read = 0;

    for path in files_below(&root) {
        let file = format!("src/{}", path.display());
        if file == FACADE || !file.ends_with(".rs") {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        read += 1;

        // The list of compiled-in files names those of every shipped pack.
        for line in code.lines().filter(|line| !line.contains("\"packs/")) {
            for word in words(line).iter().filter_map(|word| novel_word(word)) {
                if is_name_of_a_writer(word, line) {
                    continue;
                }
                match ORDINARY_USES
                    .iter()
                    .find(|known| **known == (file.as_str(), word))
                {
                    Some(ordinary) => used.push(*ordinary),
                    None => wrong.push(format!("{file}: `{word}` in: {}", line.trim())),
                }
            }
        }
    }

    assert!(read > 200, "{read} files");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unused: Vec<_> = ORDINARY_USES
        .into_iter()
        .filter(|ordinary| !used.contains(ordinary))
        .collect();
    assert!(unused.is_empty(), "remove from ORDINARY_USES: {unused:?}");
}

#[test]
fn words_are_found_in_names_and_sentences() {
    let text = "struct SceneContext { voice_locked: bool } // Stories, not beatings. ByteWriter";
    let found: Vec<_> = words(text)
        .iter()
        .filter_map(|word| novel_word(word))
        .collect();
    assert_eq!(found, ["scene", "voice", "story", "writer"]);
    assert!(is_name_of_a_writer(
        "writer",
        "let out = BufWriter::new(out);"
    ));
    assert!(!is_name_of_a_writer("writer", "/// Message to the writer."));
    assert!(!is_name_of_a_writer("writer", "print(\"Ask the writer\");"));
}
