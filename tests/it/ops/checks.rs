//! Checks of the project: commands that pass, fail, hang, leave processes running, or print too
//! much or a secret.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd::agent::{Containment, marked_calls};
use agentd::config::{CheckCommand, Environment};
use agentd::models::{Check, CheckEnd, all_passed};
use agentd::ops::{CheckJob, checks_report, run_checks};
use agentd::orchestrator::{Workspace, WorkspaceOptions};
use agentd::secret::Secrets;
use tempfile::TempDir;

use crate::support::TestProject;
use crate::support::waiting::{GROWING_LIMITS, HANG, Holders};

/// A folder to run checks in, and their settings.
struct CheckFolders {
    folder: TempDir,
    environment: Environment,
    secrets: Secrets,
    timeout: Duration,
    /// A file in the folder. The checks are stopped once it exists.
    stop_file: &'static str,
}

impl CheckFolders {
    fn new() -> Self {
        let path = (OsString::from("PATH"), std::env::var_os("PATH").unwrap());
        let environment = Environment(vec![path, ("GREETING".into(), "hello".into())]);
        let (folder, secrets) = (tempfile::tempdir().unwrap(), Secrets::default());
        Self {
            folder,
            environment,
            secrets,
            timeout: HANG,
            stop_file: "stop",
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    fn calls(&self) -> PathBuf {
        self.root().join(".agentd/calls/x.1.checks")
    }

    /// Runs checks. Afterwards none of their processes is alive, and their folder is removed.
    fn run(
        &self,
        commands: &[CheckCommand],
        report: &dyn Fn(&CheckCommand, Option<&Check>),
    ) -> Vec<Check> {
        let stop_file = self.root().join(self.stop_file);
        let marker = format!("checks-{}", self.root().display());

        let checks = run_checks(&CheckJob {
            root: &self.root(),
            folder: &self.calls(),
            guard: Path::new(env!("CARGO_BIN_EXE_agentd")),
            environment: &self.environment,
            secrets: &self.secrets,
            containment: Containment::Guard,
            commands,
            timeout: self.timeout,
            grace: Duration::from_secs(1),
            marker: &marker,
            stop: &|| u8::from(stop_file.exists()),
            report,
        });
        assert!(
            marked_calls().is_none_or(|calls| !calls.contains(&marker)),
            "a process outlived its check"
        );
        assert!(!self.calls().exists());

        checks.unwrap()
    }

    fn run_one(&self, command: &str) -> Check {
        let mut checks = self.run(&[CheckCommand::new(command)], &|_, _| {});
        checks.pop().unwrap()
    }
}

#[test]
fn checks_pass_by_exit_code_and_output_keeps_its_order() {
    let place = CheckFolders::new();
    let printed = RefCell::new(Vec::new());
    let commands = [
        "echo one; echo two >&2; echo three",
        "echo $GREETING; exit 3",
        "cat; pwd; test ! -t 0",
    ];
    let checks = place.run(&commands.map(CheckCommand::new), &|command, check| {
        printed
            .borrow_mut()
            .push((command.run.clone(), check.map(|check| check.end)));
    });
    let ends = [
        CheckEnd::Passed,
        CheckEnd::Failed { code: Some(3) },
        CheckEnd::Passed,
    ];
    let root = place.root().canonicalize().unwrap();
    let outputs = [
        "one\ntwo\nthree\n".to_owned(),
        "hello\n".to_owned(),
        format!("{}\n", root.display()),
    ];

    for ((check, end), (command, output)) in
        checks.iter().zip(ends).zip(commands.iter().zip(&outputs))
    {
        assert_eq!(
            (check.end, check.name.as_str(), check.command.as_str()),
            (end, *command, *command)
        );
        assert_eq!(check.output, *output);
    }

    assert!(!all_passed(&checks), "one failed");

    let printed: Vec<Option<CheckEnd>> = printed
        .into_inner()
        .into_iter()
        .map(|(_, end)| end)
        .collect();
    let expected: Vec<Option<CheckEnd>> = ends.iter().flat_map(|end| [None, Some(*end)]).collect();
    assert_eq!(
        printed, expected,
        "the start and the end of each are reported"
    );
}

#[test]
fn hanging_check_is_killed_and_the_next_one_runs() {
    let has_begun = |seconds: u64| {
        let place = CheckFolders {
            timeout: Duration::from_secs(seconds),
            ..CheckFolders::new()
        };
        let slow = format!("sleep {seconds}.1");
        let slow = CheckCommand {
            timeout: Some(HANG),
            ..CheckCommand::new(&slow)
        };

        let checks = place.run(
            &[CheckCommand::new("echo begun; sleep 600"), slow],
            &|_, _| {},
        );
        assert_eq!(checks[0].end, CheckEnd::TimedOut { seconds });
        assert!(
            checks[0].milliseconds >= 1_000 * seconds,
            "{}",
            checks[0].milliseconds
        );
        assert_eq!(
            checks[1].end,
            CheckEnd::Passed,
            "its own time limit is longer"
        );

        checks[0].output == "begun\n"
    };

    assert!(
        GROWING_LIMITS.into_iter().any(has_begun),
        "check output is not kept"
    );
}

#[test]
fn leftover_process_of_a_check_is_killed_and_reported() {
    let place = CheckFolders::new();
    let mut holders = Holders::new(place.root().join("fifo"));
    let script = "setsid sh -c 'exec 9> fifo; touch begun; sleep 600' & \
                  until [ -e begun ]; do sleep 0.01; done; echo started";
    let check = place.run_one(script);
    assert_eq!(check.end, CheckEnd::Passed);
    assert!(
        check
            .output
            .starts_with("started\n[leftover processes killed: "),
        "{}",
        check.output
    );
    assert!(holders.are_gone());
}

#[test]
fn secrets_are_redacted_in_check_output() {
    let value = "tOp-secret-value-1";
    let secrets = Secrets::new([("MY_API_KEY".to_owned(), value.as_bytes().to_vec())]);
    let mut place = CheckFolders {
        secrets,
        ..CheckFolders::new()
    };
    place
        .environment
        .0
        .push(("MY_API_KEY".into(), value.into()));

    let check = place.run_one("echo key=$MY_API_KEY; printf 'tOp-sec\\033[0mret-value-1\\n'");
    assert_eq!(
        check.output,
        "key=[secret MY_API_KEY]\n[secret MY_API_KEY]\n"
    );

    // A secret that crosses the start of the kept part.
    for shift in [65_010, 65_020, 65_030] {
        let check = place.run_one(&format!(
            "printf %s $MY_API_KEY; head -c {shift} /dev/zero | tr '\\0' x"
        ));
        for part in ["tOp-secret", "value-1", "cret-val"] {
            assert!(!check.output.contains(part), "{shift}: {part}");
        }
    }
}

#[test]
fn checks_see_no_secret_and_no_git_variables() {
    let project = TestProject::new();
    project.write("agentd/agents.yaml", "format: 1\nsecrets: [MINE_*]\n");
    let workspace = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap();
    let names = [
        "PATH",
        "HOME",
        "GITHUB_TOKEN",
        "MINE_X",
        "X_PAT",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_AUTHOR_NAME",
    ];
    let environment = Environment(names.map(|name| (name.into(), "short".into())).to_vec());
    let (seen, withheld) = workspace.check_environment(&environment).unwrap();

    let seen: Vec<&str> = seen
        .0
        .iter()
        .map(|(name, _)| name.to_str().unwrap())
        .collect();
    assert_eq!(seen, ["PATH", "HOME", "GIT_AUTHOR_NAME"]);
    assert_eq!(withheld, ["GITHUB_TOKEN", "MINE_X", "X_PAT"]);
}

#[test]
fn secret_variables_are_recognised_by_name() {
    let names = include_str!("../../data/secret_names.txt");
    let known = agentd::config::SecretNames::read(agentd::pack::SECRET_NAMES);
    let mut wrong = Vec::new();
    let (mut secret, mut plain) = (0, 0);
    for line in names.lines().filter(|line| !line.starts_with('#')) {
        let (kind, name) = line.split_once(' ').unwrap();
        let is_secret = match kind {
            "secret" => true,
            "plain" => false,
            other => panic!("{other}"),
        };
        if is_secret {
            secret += 1
        } else {
            plain += 1
        }
        if known.is_secret(name) != is_secret {
            wrong.push(line);
        }
    }

    assert!(secret >= 136 && plain >= 50, "{secret} {plain}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The password of a URL is also a secret without the URL, because clients often print only the
/// password.
#[test]
fn url_with_a_password_is_a_secret() {
    let project = TestProject::new();
    let workspace = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap();
    let url = "http://me:hunter2hunter2@proxy:3128";
    let environment = Environment(vec![
        ("HTTP_PROXY".into(), url.into()),
        ("NO_PROXY".into(), "http://localhost:80".into()),
    ]);

    let (seen, withheld) = workspace.check_environment(&environment).unwrap();
    assert_eq!((seen.0.len(), withheld), (1, vec!["HTTP_PROXY".to_owned()]));

    let secrets = Secrets::new(workspace.secret_values(&environment).unwrap());
    let shown = secrets
        .redact("407 for me with hunter2hunter2, tried http://me:hunter2hunter2@proxy:3128")
        .into_owned();
    assert_eq!(
        shown,
        "407 for me with [secret HTTP_PROXY], tried [secret HTTP_PROXY]"
    );
}

#[test]
fn variable_named_in_settings_is_passed_to_checks() {
    let project = TestProject::new();
    project.write(
        "agentd/config.toml",
        "format = 1\n[review]\nenv = [\"TEST_DATABASE_URL\"]\n",
    );
    let workspace = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap();
    let names = ["TEST_DATABASE_URL", "DATABASE_URL", "TEST_DATABASE_URL_2"];
    let environment = Environment(
        names
            .map(|name| (name.into(), "postgres://a:secretsecret@b/c".into()))
            .to_vec(),
    );
    let (seen, withheld) = workspace.check_environment(&environment).unwrap();

    let seen: Vec<&str> = seen
        .0
        .iter()
        .map(|(name, _)| name.to_str().unwrap())
        .collect();
    assert_eq!((seen, withheld.len()), (vec!["TEST_DATABASE_URL"], 2));

    project.write(
        "agentd/config.toml",
        "format = 1\n[review]\nenv = [\"*\"]\n",
    );
    let error = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("invalid variable name"),
        "{error}"
    );
}

#[test]
fn end_of_long_output_is_kept_and_the_cut_is_reported() {
    let place = CheckFolders::new();
    let check = place.run_one("yes 'größe' | head -c 10000000; echo; echo the end");
    assert_eq!(check.end, CheckEnd::Passed);
    assert!(check.output.len() <= 64 * 1024, "{}", check.output.len());
    assert!(check.output.len() > 60 * 1024, "{}", check.output.len());

    let (first, rest) = check.output.split_once('\n').unwrap();
    assert!(
        first.starts_with("[… 9,93") && first.ends_with(" bytes left out …]"),
        "{first}"
    );
    assert!(
        rest.ends_with("the end\n"),
        "{:?}",
        &rest[rest.len() - 40..]
    );

    // Any bytes result in a text.
    let bytes = place.run_one("head -c 300000 /dev/urandom; exit 1");
    assert_eq!(bytes.end, CheckEnd::Failed { code: Some(1) });
}

#[test]
fn missing_command_fails_and_missing_scan_tool_is_skipped() {
    let place = CheckFolders::new();
    let scan = CheckCommand::scan("echo scanned", "no-such-tool-of-anyone");
    let there = CheckCommand::scan("echo scanned; exit 1", "sh");

    let checks = place.run(
        &[
            CheckCommand::new("no-such-command-of-anyone x"),
            scan,
            there,
        ],
        &|_, _| {},
    );
    assert_eq!(checks[0].end, CheckEnd::NotInstalled);
    assert!(
        checks[0].output.contains("no-such-command-of-anyone"),
        "{}",
        checks[0].output
    );
    assert_eq!(
        (checks[1].end, checks[1].output.as_str()),
        (CheckEnd::NotRun, "")
    );
    assert_eq!(checks[2].end, CheckEnd::Failed { code: Some(1) });
    assert!(all_passed(&checks[1..2]) && !all_passed(&checks[..1]) && !all_passed(&checks[2..]));

    let killed = place.run_one("echo x; kill -9 $$");
    assert_eq!(killed.end, CheckEnd::Failed { code: None });
    assert_eq!(killed.output, "x\n[killed by signal 9]\n");
}

#[test]
fn stop_kills_the_running_check_and_starts_no_other() {
    let place = CheckFolders {
        stop_file: "first",
        ..CheckFolders::new()
    };
    let commands = ["touch first; sleep 600", "touch second"];
    let checks = place.run(&commands.map(CheckCommand::new), &|_, _| {});
    assert_eq!(
        checks.iter().map(|check| check.end).collect::<Vec<_>>(),
        [CheckEnd::Stopped; 2]
    );
    assert!(!place.root().join("second").exists());
}

#[test]
fn missing_folder_is_an_error() {
    let place = CheckFolders::new();
    fs::write(place.root().join(".agentd"), "no folder").unwrap();
    let job = |root: &Path| {
        let commands = [CheckCommand::new("true")];
        run_checks(&CheckJob {
            root,
            folder: &place.calls(),
            guard: Path::new(env!("CARGO_BIN_EXE_agentd")),
            environment: &place.environment,
            secrets: &place.secrets,
            containment: Containment::Guard,
            commands: &commands,
            timeout: place.timeout,
            grace: Duration::ZERO,
            marker: "checks-none",
            stop: &|| 0,
            report: &|_, _| {},
        })
    };

    assert!(
        job(&place.root()).is_err(),
        "there is no folder for its output"
    );

    fs::remove_file(place.root().join(".agentd")).unwrap();
    assert!(
        job(&place.root().join("nowhere")).is_err(),
        "there is no folder to run in"
    );
    assert_eq!(job(&place.root()).unwrap()[0].end, CheckEnd::Passed);
}

fn check(name: &str, end: CheckEnd, milliseconds: u64, output: &str) -> Check {
    Check {
        name: name.to_owned(),
        command: name.to_owned(),
        end,
        milliseconds,
        output: output.to_owned(),
    }
}

#[test]
fn report_fences_cannot_be_closed_by_output() {
    let many: String = (1..=300).map(|line| format!("line {line}\n")).collect();
    let report = checks_report(&[
        check(
            "make test",
            CheckEnd::Passed,
            1_234,
            "````\n# Heading\n````\n",
        ),
        check("a | b `c`", CheckEnd::Failed { code: Some(2) }, 40, &many),
        check("scan", CheckEnd::NotRun, 0, ""),
        check("noisy", CheckEnd::Passed, 100, &many),
    ]);
    let last = |count: usize| {
        many.lines()
            .skip(300 - count)
            .collect::<Vec<_>>()
            .join("\n")
    };

    let expected = format!(
        "| check | result | seconds |\n\
         |---|---|---|\n\
         | `make test` | passed | 1.3 |\n\
         | `` a \\| b `c` `` | failed with exit code 2 | 0.1 |\n\
         | `scan` | not run: tool not installed | 0.0 |\n\
         | `noisy` | passed | 0.1 |\n\
         \n`make test` passed:\n\n`````text\n````\n# Heading\n````\n`````\n\
         \n`` a | b `c` `` failed with exit code 2, its last 200 lines:\n\n```text\n{}\n```\n\
         \n`noisy` passed, its last 20 lines:\n\n```text\n{}\n```\n",
        last(200),
        last(20)
    );
    assert_eq!(report, expected);
    assert_eq!(checks_report(&[]), "No checks were run.\n");
}
