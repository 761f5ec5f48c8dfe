//! Rules of the code base itself.

mod dependencies;
mod examples;
mod imports;
mod novel_words;
mod redteam;
mod tidy;
mod wording;
