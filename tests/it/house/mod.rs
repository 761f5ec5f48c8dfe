//! Rules of the code base itself.

mod dependencies;
mod examples;
mod redteam;
mod tidy;
