//! An agent for tests that misbehaves on request.
//!
//! Every argument is a step, or a file with one step per line:
//!
//! ```text
//! out TEXT, err TEXT    writes a line                        split N TEXT   writes N bytes at a time
//! bytes N               writes N bytes in lines of 64        line N         writes N bytes without a newline
//! hex 00ff…             writes raw bytes                     cat FILE       writes a file
//! echo                  copies stdin to stdout               read-stdin     reads it and prints the number of bytes
//! read-stdin N          reads N bytes at most                close-stdin    closes it
//! sleep MS, hang        waits                                exit N         exits with a code
//! await FILE            waits until a file exists; fails after ten minutes
//! raise N               exits by a signal                    trap-term      ignores SIGTERM from here on
//! stop-guard            stops its parent with SIGSTOP        hold-guard     opens what its parent reads from
//! env                   writes the environment               pwd            writes the folder it works in
//! call-log FILE         adds a line to a file                write FILE TEXT writes a file
//! fork MS               leaves a child with its stdio        silent-fork MS leaves one without
//! deaf-fork MS          leaves one that ignores SIGTERM      setsid MS      leaves one in a new session
//! double-fork MS        leaves a grandchild without parent   bare-fork MS   leaves one without an environment
//! record FOLDER         puts argv, env and stdin into a new folder in it, named 1, 2 and so on
//! fork-loop N FILE      starts itself N times, each time in a new session, and adds a line to a file
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a test program may exit and start processes"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, iter, mem};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, close, setsid};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    for argument in env::args().skip(1) {
        let script = if Path::new(&argument).is_file() {
            fs::read_to_string(&argument)
        } else {
            Ok(argument)
        };
        for step in script
            .unwrap_or_default()
            .lines()
            .filter(|line| !line.trim().is_empty())
        {
            if let Err(error) = take(step) {
                let _closed = writeln!(io::stderr(), "fake_agent: {step}: {error}");
                process::exit(99);
            }
        }
    }
}

fn take(step: &str) -> Outcome<()> {
    let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
    let mut out = io::stdout();
    match word {
        "out" => writeln!(out, "{rest}")?,
        "err" => writeln!(io::stderr(), "{rest}")?,
        "split" => {
            let (size, text) = rest.split_once(' ').ok_or("N and TEXT")?;
            for piece in text.as_bytes().chunks(size.parse()?) {
                out.write_all(piece)?;
                out.flush()?;
                thread::sleep(Duration::from_millis(1));
            }
        }
        "bytes" => write_bytes(rest.parse()?, true)?,
        "line" => write_bytes(rest.parse()?, false)?,
        "hex" => {
            let pairs = rest
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16));
            out.write_all(&pairs.collect::<Result<Vec<u8>, _>>()?)?;
        }
        "cat" => {
            io::copy(&mut File::open(rest)?, &mut out)?;
        }
        "echo" => {
            io::copy(&mut io::stdin(), &mut out)?;
        }
        "read-stdin" => {
            let most = if rest.is_empty() {
                u64::MAX
            } else {
                rest.parse()?
            };
            let count = io::copy(&mut io::stdin().take(most), &mut io::sink())?;
            writeln!(out, "read {count} bytes")?;
        }
        "close-stdin" => close(io::stdin().as_fd().as_raw_fd())?,
        "sleep" => sleep(rest.parse()?),
        "await" => {
            let begun = Instant::now();
            while !Path::new(rest).exists() {
                if begun.elapsed() > Duration::from_secs(600) {
                    return Err("the file does not exist".into());
                }
                sleep(5);
            }
        }
        "hang" => loop {
            sleep(60_000);
        },
        "exit" => {
            out.flush()?;
            process::exit(rest.parse()?);
        }
        "raise" => {
            out.flush()?;
            // A second time if necessary: a handler of the standard library consumes the first of
            // some signals.
            loop {
                kill(Pid::this(), Signal::try_from(rest.parse::<i32>()?)?)?;
                sleep(10);
            }
        }
        "stop-guard" => kill(Pid::parent(), Signal::SIGSTOP)?,
        "hold-guard" => {
            let opened = OpenOptions::new()
                .write(true)
                .open(format!("/proc/{}/fd/0", Pid::parent()));
            // Closed with this process.
            mem::forget(opened);
        }
        "trap-term" => SigSet::from(Signal::SIGTERM).thread_block()?,
        "env" => {
            for (name, value) in env::vars_os() {
                writeln!(out, "{}={}", name.display(), value.display())?;
            }
        }
        "pwd" => writeln!(out, "{}", env::current_dir()?.display())?,
        "call-log" => writeln!(
            OpenOptions::new().append(true).create(true).open(rest)?,
            "called"
        )?,
        "write" => {
            let (path, text) = rest.split_once(' ').ok_or("FILE and TEXT")?;
            fs::write(path, text)?;
        }
        "record" => record(Path::new(rest))?,
        "new-session" => {
            setsid()?;
        }
        _ => return leave(word, rest),
    }

    Ok(out.flush()?)
}

/// Records the arguments and variables of this program, one per line.
fn record(folder: &Path) -> Outcome<()> {
    let number = (1..)
        .find(|number| !folder.join(number.to_string()).exists())
        .unwrap_or(1);
    let folder = folder.join(number.to_string());
    fs::create_dir_all(&folder)?;
    let lines = |words: Vec<String>| {
        words
            .iter()
            .map(|word| format!("{word}\n"))
            .collect::<String>()
    };

    fs::write(folder.join("argv"), lines(env::args().skip(1).collect()))?;
    let variables =
        env::vars_os().map(|(name, value)| format!("{}={}", name.display(), value.display()));
    fs::write(folder.join("env"), lines(variables.collect()))?;
    io::copy(&mut io::stdin(), &mut File::create(folder.join("stdin"))?)?;
    Ok(())
}

/// Takes the steps that leave processes running. Each continues only when the child has reached its
/// sleep.
fn leave(word: &str, rest: &str) -> Outcome<()> {
    if word == "fork-loop" {
        // Bounded, because a process that escaped its guard could not be caught any more.
        let (left, log) = rest.split_once(' ').ok_or("N and FILE")?;
        if let left @ 1.. = left.parse::<u64>()? {
            let steps = [
                "new-session",
                &format!("call-log {log}"),
                &format!("fork-loop {} {log}", left - 1),
            ];
            itself(&steps)?.spawn()?;
        }
        return Ok(());
    }

    let sleep = format!("sleep {rest}");
    let (reader, writer) = io::pipe()?;
    let mut child = match word {
        "fork" | "silent-fork" => itself(&["close-stdin", &sleep])?,
        "deaf-fork" => itself(&["trap-term", "close-stdin", &sleep])?,
        "setsid" | "bare-fork" => itself(&["new-session", "close-stdin", &sleep])?,
        "double-fork" => itself(&[&format!("setsid {rest}")])?,
        _ => return Err("no such step".into()),
    };
    if word == "silent-fork" {
        child.stdout(Stdio::null()).stderr(Stdio::null());
    }
    if word == "bare-fork" {
        child.env_clear();
    }
    let mut started = child.stdin(writer).spawn()?;

    // The command holds our end of the pipe that the child closes.
    drop(child);
    io::copy(&mut &reader, &mut io::sink())?;
    if word == "double-fork" {
        started.wait()?;
    }
    Ok(())
}

/// Returns this program with other steps.
fn itself(steps: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(steps);
    Ok(command)
}

fn sleep(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Writes this many bytes, in lines or in one.
fn write_bytes(count: u64, lines: bool) -> io::Result<()> {
    let mut line = [b'x'; 64];
    if lines {
        line[63] = b'\n';
    }
    let block: Vec<u8> = iter::repeat_n(line, 1024).flatten().collect();
    let mut out = io::stdout().lock();
    io::copy(&mut Endless(&block).take(count), &mut out)?;
    out.flush()
}

/// Writes a block of bytes repeatedly.
struct Endless<'a>(&'a [u8]);

impl Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.0.len()) / 64 * 64;
        let count = if count == 0 {
            into.len().min(64)
        } else {
            count
        };
        into[..count].copy_from_slice(&self.0[..count]);
        Ok(count)
    }
}
