//! The project's own checks: run one after the other, each under a guard, and told of in Markdown.

use std::path::Path;
use std::time::Duration;

use crate::agent::{self, Containment, Exit, ExitCause, Job, Limits, find_command, path_of};
use crate::config::{CheckCommand, Environment};
use crate::error::Result;
use crate::models::{Check, CheckEnd, grouped};
use crate::secret::Secrets;

/// The most bytes that are kept of what a check wrote.
const KEPT: usize = 64 * 1024;

/// What is set aside of these for what is said of it.
const SAID: usize = 512;

/// The most bytes that a check may write.
const OUTPUT: u64 = 256 * 1024 * 1024;

/// How long a look at a running check takes.
const PATIENCE: Duration = Duration::from_millis(50);

/// The exit code by which a shell tells that a command is not there.
const NOT_FOUND: i32 = 127;

/// The most lines that a report shows of a check that did not pass, and of one that did.
const LINES: (usize, usize) = (200, 20);

/// Checks that are to be run, and how.
#[derive(Clone, Copy)]
pub struct CheckJob<'a> {
    /// The folder that they run in.
    pub root: &'a Path,
    /// A folder of their own for what they write, which is gone afterwards.
    pub folder: &'a Path,
    /// The path of a program whose `main` begins with `guard_main`.
    pub guard: &'a Path,
    /// All variables that they see; nothing secret is to be among them.
    pub environment: &'a Environment,
    /// What is taken out of what they write.
    pub secrets: &'a Secrets,
    /// How they are contained.
    pub containment: Containment,
    /// The checks.
    pub commands: &'a [CheckCommand],
    /// How long one may take that does not say so itself.
    pub timeout: Duration,
    /// How long one has between the request to end and the end by force.
    pub grace: Duration,
    /// What their processes carry in their environment, so that they can be found again.
    pub marker: &'a str,
    /// Returns how often they were asked to stop: once for a graceful end, twice for one at once.
    pub stop: &'a dyn Fn() -> u8,
    /// Is told of each check when it begins, and when it has ended.
    pub tell: &'a dyn Fn(&CheckCommand, Option<&Check>),
}

impl std::fmt::Debug for CheckJob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("CheckJob");
        shown
            .field("root", &self.root)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

/// Runs checks, one after the other. Nothing of one is alive when the next begins; one that fails keeps no other from
/// being run, and once they are stopped all that are left count as stopped.
///
/// # Errors
///
/// `AgentUnusable` if nothing can be contained here, `StorageFull` or `FileUnusable` if what they write cannot be kept.
pub fn run_checks(job: &CheckJob<'_>) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (index, command) in job.commands.iter().enumerate() {
        (job.tell)(command, None);
        let folder = job.folder.join((index + 1).to_string());
        let check = run(job, command, &folder);
        agent::discard(&folder);
        let check = check?;
        (job.tell)(command, Some(&check));
        checks.push(check);
    }
    agent::discard(job.folder);
    Ok(checks)
}

fn run(job: &CheckJob<'_>, command: &CheckCommand, folder: &Path) -> Result<Check> {
    let ended = |end, milliseconds, output| {
        let CheckCommand { name, run, .. } = command.clone();
        Check {
            name,
            command: run,
            end,
            milliseconds,
            output,
        }
    };
    if (job.stop)() > 0 {
        return Ok(ended(CheckEnd::Stopped, 0, String::new()));
    }
    let path = path_of(job.environment).unwrap_or_default();
    if command
        .tool
        .as_ref()
        .is_some_and(|tool| find_command(path, tool).is_none())
    {
        return Ok(ended(CheckEnd::NotRun, 0, String::new()));
    }
    let timeout = command.timeout.unwrap_or(job.timeout);
    let exit = launch(job, command, folder, timeout)?;
    let (end, said) = end_of(&exit, timeout);
    Ok(ended(end, exit.milliseconds, output(job, folder, &said)?))
}

/// Runs a command to its end.
fn launch(
    job: &CheckJob<'_>,
    command: &CheckCommand,
    folder: &Path,
    timeout: Duration,
) -> Result<Exit> {
    agent::prepare(folder, b"")?;
    // In one file, what it wrote stands in the order in which it was written.
    let argv = [
        "sh".to_owned(),
        "-c".to_owned(),
        format!("exec 2>&1\n{}", command.run),
    ];
    let limits = Limits {
        wall: timeout,
        idle: timeout,
        grace: job.grace,
        output: OUTPUT,
        max_wait: Duration::ZERO,
    };
    let mut contained = agent::launch(&Job {
        guard: job.guard,
        argv: &argv,
        env: &job.environment.0,
        cwd: job.root,
        folder,
        marker: job.marker,
        limits,
        containment: job.containment,
    })?;
    let mut stopped = 0;
    loop {
        if let Some(exit) = contained.wait(PATIENCE)? {
            return Ok(exit);
        }
        let asked = (job.stop)();
        if asked > stopped {
            contained.stop(asked > 1);
            stopped = asked;
        }
    }
}

/// Returns how a check ended, and what is to be said of it beside what it wrote.
fn end_of(exit: &Exit, timeout: Duration) -> (CheckEnd, Vec<String>) {
    let mut said = Vec::new();
    let failed = CheckEnd::Failed { code: exit.code };
    let end = match &exit.cause {
        ExitCause::Ended => match exit.code {
            Some(0) => CheckEnd::Passed,
            Some(NOT_FOUND) => CheckEnd::NotInstalled,
            Some(_) => failed,
            None => {
                said.push(match exit.signal {
                    Some(signal) => format!("ended by signal {signal}"),
                    None => "ended by something else".to_owned(),
                });
                failed
            }
        },
        ExitCause::Wall | ExitCause::Idle => CheckEnd::TimedOut {
            seconds: timeout.as_secs(),
        },
        ExitCause::Stopped => CheckEnd::Stopped,
        ExitCause::NotInstalled => CheckEnd::NotInstalled,
        ExitCause::Output => {
            said.push(format!(
                "ended, as it wrote more than {} bytes",
                grouped(OUTPUT)
            ));
            CheckEnd::Failed { code: None }
        }
        ExitCause::NotStarted(why) => {
            said.push(format!("not started: {why}"));
            CheckEnd::Failed { code: None }
        }
        ExitCause::Abandoned | ExitCause::Removed => {
            said.push("its guard, or the folder of what it wrote, was gone".to_owned());
            CheckEnd::Failed { code: None }
        }
    };
    if exit.left_behind > 0 {
        said.push(format!(
            "processes left behind, and ended: {}",
            exit.left_behind
        ));
    }
    (end, said)
}

/// Returns the last part of what a check wrote, and what is said of it.
fn output(job: &CheckJob<'_>, folder: &Path, said: &[String]) -> Result<String> {
    let (end, left_out) = agent::stdout_end(folder, job.secrets, KEPT - SAID)?;
    let mut output = String::new();
    if left_out > 0 {
        output.push_str(&format!("[… {} bytes left out …]\n", grouped(left_out)));
    }
    output.push_str(&end);
    for words in said {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let words = words.split_at(words.floor_char_boundary(SAID / 4)).0;
        output.push_str(&format!("[{words}]\n"));
    }
    Ok(output)
}

/// Tells of checks in Markdown: a table, then the end of what each wrote, in a fence that nothing in it closes.
#[must_use]
pub fn checks_report(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "No check was run.\n".to_owned();
    }
    let mut report = "| check | result | seconds |\n|---|---|---|\n".to_owned();
    for check in checks {
        let tenths = check.milliseconds.div_ceil(100);
        // A bar ends a cell, even in code.
        let name = code(&check.name).replace('|', "\\|");
        report.push_str(&format!(
            "| {name} | {} | {}.{} |\n",
            check.end,
            tenths / 10,
            tenths % 10
        ));
    }
    for check in checks
        .iter()
        .filter(|check| !check.output.trim().is_empty())
    {
        let most = if check.passed() { LINES.1 } else { LINES.0 };
        let lines: Vec<&str> = check.output.trim_end().lines().collect();
        let from = lines.len().saturating_sub(most);
        let which = if from > 0 {
            format!(", its last {most} lines")
        } else {
            String::new()
        };
        let shown = lines[from..].join("\n");
        let fence = "`".repeat(longest_run(&shown).max(2) + 1);
        let (name, end) = (code(&check.name), check.end);
        report.push_str(&format!(
            "\n{name} {end}{which}:\n\n{fence}text\n{shown}\n{fence}\n"
        ));
    }
    report
}

/// Returns a line as code, whatever backticks stand in it.
fn code(line: &str) -> String {
    let marks = "`".repeat(longest_run(line) + 1);
    // A blank on both sides is no part of the code, and keeps a backtick of its own apart.
    let blank = if line.contains('`') || line.trim() != line {
        " "
    } else {
        ""
    };
    format!("{marks}{blank}{line}{blank}{marks}")
}

/// Returns how many backticks stand in a row at most.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
