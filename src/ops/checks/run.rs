//! Runs the project's checks one after the other, each under the guard process, and writes a report in Markdown.

use std::path::Path;
use std::time::Duration;

use crate::agent::{
    self, CommandExit, Containment, ExitCause, GuardedCommand, Limits, find_command, path_of,
};
use crate::config::{CheckCommand, Environment};
use crate::error::Result;
use crate::models::{Check, CheckEnd, grouped};
use crate::secret::Secrets;

/// Maximum size of the recorded output of a check, in bytes.
const MAX_RECORDED_BYTES: usize = 64 * 1024;

/// Part of [`MAX_RECORDED_BYTES`] that is reserved for remarks on the output.
const RESERVED_BYTES: usize = 512;

/// Maximum size of one remark on the output of a check, in bytes; a longer remark is truncated.
const MAX_REMARK_BYTES: usize = RESERVED_BYTES / 4;

/// Maximum size of the output of a check, in bytes; a check that writes more is killed.
const MAX_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Interval at which a running check is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exit code of a shell if a command is not found.
const COMMAND_NOT_FOUND: i32 = 127;

/// Maximum number of output lines of a passed check in a report.
const MAX_PASSED_REPORT_LINES: usize = 20;

/// Maximum number of output lines of any other check in a report.
const MAX_FAILED_REPORT_LINES: usize = 200;

/// Checks to run, with their environment and limits.
#[derive(Clone, Copy)]
pub struct CheckJob<'a> {
    /// Working directory of the checks.
    pub root: &'a Path,
    /// Folder for the output of the checks; removed after the run.
    pub folder: &'a Path,
    /// Path of a program whose `main` starts with `guard_main`.
    pub guard: &'a Path,
    /// Complete environment of the checks; must not contain secrets.
    pub environment: &'a Environment,
    /// Values to redact in the output.
    pub secrets: &'a Secrets,
    /// Containment of the check processes.
    pub containment: Containment,
    /// Check commands, in the order in which they are run.
    pub commands: &'a [CheckCommand],
    /// Timeout of a check that does not set its own.
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Value in the environment of the check processes, by which leftover processes are found.
    pub marker: &'a str,
    /// Returns the number of stop requests: one stops the checks gracefully, two kill them.
    pub stop: &'a dyn Fn() -> u8,
    /// Called for each check twice: when it starts, and with its result when it has ended.
    pub report: &'a dyn Fn(&CheckCommand, Option<&Check>),
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

/// Runs checks one after the other. No process of a check is alive when the next one starts. A failure does not stop
/// the others; after a stop request, all remaining checks count as stopped.
///
/// # Errors
///
/// `AgentUnusable` if processes cannot be contained on this system, `StorageFull` or `FileUnusable` if the output of a
/// check cannot be written.
pub fn run_checks(job: &CheckJob<'_>) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (index, command) in job.commands.iter().enumerate() {
        (job.report)(command, None);
        let folder = job.folder.join((index + 1).to_string());
        let check = run(job, command, &folder);
        agent::discard(&folder);
        let check = check?;
        (job.report)(command, Some(&check));
        checks.push(check);
    }
    agent::discard(job.folder);
    Ok(checks)
}

fn run(job: &CheckJob<'_>, command: &CheckCommand, folder: &Path) -> Result<Check> {
    let new_check = |end, milliseconds, output| {
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
        return Ok(new_check(CheckEnd::Stopped, 0, String::new()));
    }

    let path = path_of(job.environment).unwrap_or_default();
    if command
        .tool
        .as_ref()
        .is_some_and(|tool| find_command(path, tool).is_none())
    {
        return Ok(new_check(CheckEnd::NotRun, 0, String::new()));
    }

    let timeout = command.timeout.unwrap_or(job.timeout);
    let exit = run_command(job, command, folder, timeout)?;
    let (end, remarks) = check_end(&exit, timeout);
    Ok(new_check(
        end,
        exit.milliseconds,
        output(job, folder, &remarks)?,
    ))
}

/// Runs a command until it ends.
fn run_command(
    job: &CheckJob<'_>,
    command: &CheckCommand,
    folder: &Path,
    timeout: Duration,
) -> Result<CommandExit> {
    agent::prepare(folder, b"")?;

    // One file for both streams keeps the order of the output.
    let argv = [
        "sh".to_owned(),
        "-c".to_owned(),
        format!("exec 2>&1\n{}", command.run),
    ];
    let limits = Limits {
        wall: timeout,
        idle: timeout,
        grace: job.grace,
        output: MAX_OUTPUT_BYTES,
        max_wait: Duration::ZERO,
    };

    let mut contained = agent::launch(&GuardedCommand {
        guard: job.guard,
        argv: &argv,
        env: &job.environment.0,
        cwd: job.root,
        folder,
        marker: job.marker,
        limits,
        containment: job.containment,
    })?;

    let mut handled_requests = 0;
    loop {
        if let Some(exit) = contained.wait(POLL_INTERVAL)? {
            return Ok(exit);
        }
        let stop_requests = (job.stop)();
        if stop_requests > handled_requests {
            contained.stop(stop_requests > 1);
            handled_requests = stop_requests;
        }
    }
}

/// Returns the result of a check, and remarks for the end of its output.
fn check_end(exit: &CommandExit, timeout: Duration) -> (CheckEnd, Vec<String>) {
    let mut remarks = Vec::new();
    let failed = CheckEnd::Failed { code: exit.code };
    let end = match &exit.cause {
        ExitCause::Ended => match exit.code {
            Some(0) => CheckEnd::Passed,
            Some(COMMAND_NOT_FOUND) => CheckEnd::NotInstalled,
            Some(_) => failed,
            None => {
                remarks.push(match exit.signal {
                    Some(signal) => format!("killed by signal {signal}"),
                    None => "ended without an exit code".to_owned(),
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
            remarks.push(format!(
                "killed: the output exceeds {} bytes",
                grouped(MAX_OUTPUT_BYTES)
            ));
            CheckEnd::Failed { code: None }
        }
        ExitCause::NotStarted(why) => {
            remarks.push(format!("not started: {why}"));
            CheckEnd::Failed { code: None }
        }
        ExitCause::Abandoned => {
            remarks.push("the guard process was killed".to_owned());
            CheckEnd::Failed { code: None }
        }
        ExitCause::Removed => {
            remarks.push("the output folder was removed while the check ran".to_owned());
            CheckEnd::Failed { code: None }
        }
    };
    if exit.left_behind > 0 {
        remarks.push(format!("leftover processes killed: {}", exit.left_behind));
    }
    (end, remarks)
}

/// Returns the last part of a check's output, followed by the remarks.
fn output(job: &CheckJob<'_>, folder: &Path, remarks: &[String]) -> Result<String> {
    let (end, left_out) =
        agent::stdout_end(folder, job.secrets, MAX_RECORDED_BYTES - RESERVED_BYTES)?;
    let mut output = String::new();
    if left_out > 0 {
        output.push_str(&format!("[… {} bytes left out …]\n", grouped(left_out)));
    }
    output.push_str(&end);
    for remark in remarks {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let end = remark.floor_char_boundary(MAX_REMARK_BYTES);
        output.push_str(&format!("[{}]\n", &remark[..end]));
    }
    Ok(output)
}

/// Returns a report in Markdown: a table, then the end of each output, in a code fence longer than any run of backticks
/// in the output.
#[must_use]
pub fn checks_report(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "No checks were run.\n".to_owned();
    }

    let mut report = "| check | result | seconds |\n|---|---|---|\n".to_owned();
    for check in checks {
        let tenths = check.milliseconds.div_ceil(100);
        // A `|` ends a table cell, even in a code span.
        let name = code_span(&check.name).replace('|', "\\|");
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
        let max_lines = if check.passed() {
            MAX_PASSED_REPORT_LINES
        } else {
            MAX_FAILED_REPORT_LINES
        };

        let lines: Vec<&str> = check.output.trim_end().lines().collect();
        let from = lines.len().saturating_sub(max_lines);
        let range = if from > 0 {
            format!(", its last {max_lines} lines")
        } else {
            String::new()
        };

        let shown = lines[from..].join("\n");
        let fence = "`".repeat(longest_backtick_run(&shown).max(2) + 1);
        let name = code_span(&check.name);
        let end = check.end;
        report.push_str(&format!(
            "\n{name} {end}{range}:\n\n{fence}text\n{shown}\n{fence}\n"
        ));
    }
    report
}

/// Returns a line as a code span with enough backticks around it.
fn code_span(line: &str) -> String {
    let delimiter = "`".repeat(longest_backtick_run(line) + 1);
    // Markdown strips one space on each side, so padding separates the line's own backticks from the delimiters.
    let padding = if line.contains('`') || line.trim() != line {
        " "
    } else {
        ""
    };
    format!("{delimiter}{padding}{line}{padding}{delimiter}")
}

/// Returns the length of the longest run of backticks.
fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
