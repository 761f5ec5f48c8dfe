//! A program that names itself as the guard but does not call `guard_main`. It works in `FOLDER`,
//! and each start adds a line to `FOLDER/starts`.
#![expect(
    clippy::disallowed_methods,
    reason = "a test program may start processes"
)]

use std::env;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use agentd::agent::{Containment, GuardedCommand, Limits, launch, prepare};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var_os("FOLDER").ok_or("FOLDER is not set")?);
    let starts = folder.join("starts");
    writeln!(
        OpenOptions::new().append(true).create(true).open(&starts)?,
        "started"
    )?;
    let count = fs::read_to_string(&starts)?.lines().count();

    // Bounded, in case it escapes.
    if count > 5 {
        return Ok(());
    }
    let call = folder.join(count.to_string());
    prepare(&call, b"")?;
    let job = GuardedCommand {
        guard: &env::current_exe()?,
        argv: &["true".to_owned()],
        env: &env::vars_os().collect::<Vec<_>>(),
        cwd: &folder,
        folder: &call,
        marker: "without-guard-main",
        limits: Limits::default(),
        containment: Containment::Guard,
    };
    match launch(&job) {
        Ok(_) => writeln!(io::stdout(), "launched")?,
        Err(error) => writeln!(io::stdout(), "{error:#}")?,
    }

    Ok(())
}
