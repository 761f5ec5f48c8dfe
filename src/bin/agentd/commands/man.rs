//! `agentd man`: man pages, generated from the help texts.

use std::path::Path;

use agentd::{Error, ErrorKind, ops};
use clap::CommandFactory;

use crate::args::Args;
use crate::terminal::CommandResult;
use crate::{exit, project};

/// Writes `agentd.1`, and `agentd-COMMAND.1` for each command that `--help` lists.
pub(super) fn run(args: &Args, folder: &Path) -> CommandResult {
    let folder = project::folder(args)?.join(folder);
    ops::make_folder(&folder)?;

    clap_mangen::generate_to(Args::command(), &folder).map_err(|error| {
        let message = format!(
            "cannot write man pages to {}",
            folder.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::FileUnusable, message).with_source(error)
    })?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn every_listed_command_has_a_page() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("share/man1");
        let args = Args::try_parse_from(["agentd", "doctor"]).unwrap();

        assert!(run(&args, &folder).is_ok());

        for page in [
            "agentd.1",
            "agentd-review.1",
            "agentd-pack.1",
            "agentd-pack-show.1",
        ] {
            assert!(folder.join(page).is_file(), "{page}");
        }
        assert!(!folder.join("agentd-man.1").exists());
    }
}
