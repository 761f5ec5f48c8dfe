//! Runs a command that cannot outlive its caller: `contained FOLDER MARKER guard|namespace COMMAND…`.
#![expect(
    clippy::disallowed_methods,
    reason = "an example may use the terminal and the environment"
)]

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use agentd::agent::{Containment, GuardedCommand, Limits, guard_main, launch, prepare};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program is its own guard: it is started again, with arguments that this call
    // understands.
    guard_main();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, marker, containment, argv @ ..] = arguments.as_slice() else {
        return Err("usage: contained FOLDER MARKER guard|namespace COMMAND...".into());
    };
    let folder = Path::new(folder);
    prepare(folder, io::read_to_string(io::stdin())?.as_bytes())?;
    let mut contained = launch(&GuardedCommand {
        guard: &env::current_exe()?,
        argv,
        env: &env::vars_os().collect::<Vec<_>>(),
        cwd: &env::current_dir()?,
        folder,
        marker,
        limits: Limits::default(),
        containment: if containment == "namespace" {
            Containment::Namespace
        } else {
            Containment::Guard
        },
    })?;
    writeln!(io::stdout(), "guard {}", contained.process().pid)?;
    let exit = loop {
        if let Some(exit) = contained.wait(Duration::from_secs(1))? {
            break exit;
        }
    };
    writeln!(io::stdout(), "{exit:?}")?;
    Ok(())
}
