//! Rules of the code base itself.

mod dependencies;
mod tidy;
