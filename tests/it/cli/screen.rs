//! Text on a terminal: foreign text cannot drive it, regardless of its content and of how it is
//! split.

use std::borrow::Cow;
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{CI_VARIABLES, Run, TestProject, did_not_run};
use agentd::text::terminal::{TerminalFilter, filter_terminal_text};

/// Independent definition of the characters that may reach a terminal.
fn is_allowed(c: char) -> bool {
    let code = u32::from(c);
    let control = code < 0x20 || (0x7f..0xa0).contains(&code);
    let hidden = [0x61c, 0x200e, 0x200f, 0x2028, 0x2029].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code)
        || (0xfff9..=0xfffb).contains(&code)
        || (0xe0000..=0xe007f).contains(&code);
    c == '\n' || c == '\t' || !(control || hidden)
}

/// Returns the output for a text that arrives one character at a time.
fn by_characters(text: &str) -> String {
    let mut screen = TerminalFilter::default();
    text.chars()
        .map(|c| screen.push(c.encode_utf8(&mut [0; 4])).into_owned())
        .collect()
}

/// Text with many characters that are special to a terminal.
fn hostile_text() -> impl Strategy<Value = String> {
    let any = any::<char>();
    let meant = prop::sample::select(
        "\u{1b}\u{1b}\u{1b}[]P_^X\\;?0m( \u{7}\u{8}\u{18}\r\n\n\t\u{7f}\u{84}\u{90}\u{9b}\u{9c}\u{9d}\u{9f}\
         \u{61c}\u{200d}\u{200e}\u{2028}\u{202e}\u{2066}\u{fe0f}\u{fffa}\u{e0041}\u{e0100}aé漢😀"
            .chars()
            .collect::<Vec<_>>(),
    );
    vec(prop_oneof![1 => any, 4 => meant], 0..60).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn control_sequences_are_removed_at_any_split(
        pieces in vec(prop_oneof![4 => hostile_text(), 1 => any::<String>()], 0..6),
    ) {
        let text = pieces.concat();
        let shown = filter_terminal_text(&text);
        prop_assert!(shown.chars().all(is_allowed), "{shown:?}");
        let mut in_pieces = TerminalFilter::default();
        let joined: String = pieces.iter().map(|piece| in_pieces.push(piece).into_owned()).collect();
        prop_assert_eq!(&joined, &shown);
        prop_assert_eq!(&by_characters(&text), &shown);
        prop_assert_eq!(filter_terminal_text(&shown), Cow::Borrowed(&*shown));
    }

    #[test]
    fn text_without_controls_is_unchanged(text in any::<String>()) {
        let text: String = text.chars().filter(|c| is_allowed(*c)).collect();
        prop_assert!(matches!(filter_terminal_text(&text), Cow::Borrowed(same) if same == text));
    }

    /// The next line is complete after any preceding text.
    #[test]
    fn sequences_do_not_cross_line_ends(before in hostile_text(), line in "[ -~é漢]{0,20}") {
        let text = format!("{before}\n{line}");
        let shown = filter_terminal_text(&text);
        prop_assert_eq!(shown.rsplit('\n').next().unwrap(), line);
    }
}

/// Text with every kind of control sequence: a title, the clipboard, colours, a direction, both
/// kinds of CSI.
const EVIL: &str =
    "a\u{1b}]0;x\u{7}b\u{1b}]52;c;eA==\u{1b}\\c\u{1b}[31md\u{9b}31me\u{202e}f\u{7f}g";

#[test]
fn names_and_errors_cannot_drive_the_terminal() {
    let project = TestProject::new();
    project.write("agentd/project.md", "x");
    let errors: [(&[&str], i32, &str); 6] = [
        (&["models", "show", EVIL], 3, "unknown model `abcdefg`"),
        (
            &["models", "show", EVIL, "--json"],
            3,
            "unknown model `abcdefg`",
        ),
        (
            &["models", "show", "a\u{9d}b\u{2028}c", "--json"],
            3,
            "unknown model `a\\nc`",
        ),
        (
            &["turn", "plan", "x", "--agent", EVIL, "--script", "x"],
            3,
            "invalid agent name",
        ),
        (&["tokens", EVIL], 3, "does not exist"),
        (&[EVIL], 2, "unrecognized subcommand 'abcdefg'"),
    ];

    for (args, code, words) in errors {
        let stderr = project.run(args).fails(code, &[words]);
        assert!(stderr.chars().all(is_allowed), "{stderr:?}");
        if args.contains(&"--json") {
            let last: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
            assert_eq!(last["error"]["exit_code"], code);
        }
    }

    // Help is data and contains no argument.
    assert!(
        project
            .run(&["prompt", EVIL, "--help"])
            .ok()
            .contains("Usage: agentd prompt")
    );
}

/// A turn whose reply has control sequences in its message and in a target.
const TURN: [&str; 7] = [
    "turn",
    "plan",
    "x",
    "--agent",
    "scripted",
    "--script",
    "script.yaml",
];

fn project_with_turn() -> TestProject {
    let project = TestProject::new();
    let reply = format!(
        "One {EVIL}.\n\u{1b}]0;two\nThree.\n<content_update target=\"{EVIL}\u{2028}next done\">x</content_update>\n\
         <review>PASS</review>\n"
    );

    // YAML accepts such characters only as escapes.
    let reply: String = reply
        .chars()
        .map(|c| format!("\\u{:04x}", u32::from(c)))
        .collect();
    project.disable_nonce();
    project.write(
        "script.yaml",
        format!("format: 1\nturns: [{{reply: \"{reply}\"}}]\n"),
    );
    project
}

#[test]
fn own_colours_stay_and_foreign_ones_are_removed() {
    let project = project_with_turn();
    let output = project
        .command(&TURN)
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    let run = Run::from(output);
    assert!(
        run.stderr.contains("\u{1b}[1mverdict   \u{1b}[0m PASS\n"),
        "{:?}",
        run.stderr
    );

    let ours = ["\u{1b}[1m", "\u{1b}[33m", "\u{1b}[0m"];
    let plain = ours
        .iter()
        .fold(run.stderr, |text, colour| text.replace(colour, ""));

    // Text from a reply cannot forge one of our rows.
    assert!(
        plain.contains("\nrefused    content_update abcdefg\n           next done: "),
        "{plain}"
    );
    assert!(plain.chars().all(is_allowed), "{plain:?}");
}

#[test]
fn data_is_exact_without_a_terminal() {
    let args = ["prompt", "plan", "x\u{9b}31my\u{202e}z", "--format", "flat"];
    assert!(
        project_with_turn()
            .run(&args)
            .ok()
            .ends_with("\nx\u{9b}31my\u{202e}z")
    );
}

/// Runs the program on a terminal, with stderr redirected. Returns `None` if `script` is missing.
fn in_terminal(project: &TestProject, args: &[&str]) -> Option<String> {
    let program = project.command(args);
    let mut quoted = String::new();
    for word in std::iter::once(program.get_program()).chain(program.get_args()) {
        quoted += &format!("'{}' ", word.to_str().unwrap());
    }
    let mut child = Command::new("script")
        .args(["-qec", &format!("{quoted} 2>talk"), "/dev/null"])
        .current_dir(project.root())
        .env("HOME", project.home())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;

    // At the end of its input `script` would type an end of file, which the terminal would echo.
    let typing = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(typing);

    let run = Run::from(output);
    assert!(run.code == 0, "{run:?}\n{}", project.read("talk"));

    Some(run.stdout.replace("\r\n", "\n"))
}

#[test]
fn data_cannot_drive_the_terminal() {
    let project = project_with_turn();
    let Some(message) = in_terminal(&project, &TURN) else {
        return did_not_run(
            "data_cannot_drive_the_terminal",
            "the command `script` is missing",
        );
    };
    // The parser keeps the text of an unterminated sequence because it may contain something
    // relevant.
    assert_eq!(message, "One abcdefg.\n0;two\nThree.\n");
    let report = in_terminal(&project, &[&TURN[..], &["--json"]].concat()).unwrap();
    assert!(report.chars().all(is_allowed), "{report:?}");
    // A text without a final line end gets one.
    let args = ["prompt", "plan", "x\u{9b}31my\u{202e}z", "--format", "flat"];
    assert!(in_terminal(&project, &args).unwrap().ends_with("\nxyz\n"));
}

/// Lines of a reply that the runners of GitHub Actions, Azure Pipelines and TeamCity obey.
const CI_COMMANDS: &str = "Done.\n::set-env name=PATH::evil\n  ::add-mask::x\nsee ##[group]y\n##vso[task.complete]z\n##teamcity[buildStop]\n";

/// Returns true for a line that one of the runners obeys, following their source code.
fn is_ci_command(line: &str) -> bool {
    let obeyed_anywhere = ["##[", "##vso[", "##teamcity["];
    line.trim_start().starts_with("::") || obeyed_anywhere.iter().any(|start| line.contains(start))
}

#[test]
fn agent_messages_are_not_ci_commands() {
    let project = TestProject::new();
    let reply: String = CI_COMMANDS
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    let script = format!("format: 1\nturns:\n  - reply: |\n{reply}      <review>PASS</review>\n");
    project.write("script.yaml", script).disable_nonce();

    let as_it_is = project.run(&TURN).ok();
    assert!(
        as_it_is.contains("\n::set-env name=PATH::evil\n"),
        "{as_it_is}"
    );

    for variable in CI_VARIABLES {
        for command in [
            &TURN[..],
            &["show", "last", "--response"],
            &["show", "last"],
        ] {
            let output = project
                .command(command)
                .env(variable, "true")
                .output()
                .unwrap();
            let run = Run::from(output);
            assert_eq!(run.code, 0, "{run:?}");
            let shown = [run.stdout.as_str(), &run.stderr].concat();
            assert_eq!(
                shown.lines().find(|line| is_ci_command(line)),
                None,
                "{command:?}"
            );
        }
        let shown = Run::from(project.command(&TURN).env(variable, "1").output().unwrap()).ok();
        assert!(shown.contains("\n:\\:set-env name=PATH::evil\n"), "{shown}");

        // JSON keeps the exact value.
        let args = [&TURN[..], &["--json"]].concat();
        let json = Run::from(project.command(&args).env(variable, "1").output().unwrap()).ok();
        assert_eq!(json.lines().find(|line| is_ci_command(line)), None);
        let values: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let has_value = |value: &Value| value.to_string().contains("##[group]y");
        assert!(values.iter().any(has_value), "{json}");
    }

    // A file is not a log, so it gets every byte.
    let file = project.home().join("message");
    let output = std::fs::File::create(&file).unwrap();
    let mut command = project.command(&TURN);

    let status = command
        .env("GITHUB_ACTIONS", "true")
        .stdout(output)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read_to_string(file).unwrap(), as_it_is);
}
