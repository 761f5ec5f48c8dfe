//! Documented settings: the file written by `agentd init`, and docs/reference/settings.md.

use std::fs;

use agentd::config::{CallLimits, Settings};
use agentd::pack::CONFIG_DRAFT;

use crate::support::{Run, TestProject, repository, write};

/// Returns the settings of a text with all commented-out lines enabled, and the number of those
/// lines.
fn enable_commented_lines(draft: &str) -> (Settings, usize) {
    let is_setting = |line: &str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        line.starts_with('[')
            || (line.contains('=') && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };

    let mut count = 0;
    let mut text = String::new();
    for line in draft.lines() {
        let line = match line.strip_prefix("# ").filter(|line| is_setting(line)) {
            Some(setting) => {
                count += 1;
                setting
            }
            None => line,
        };
        text.push_str(line);
        text.push('\n');
    }

    (Settings::default().overlaid(&text, "draft").unwrap(), count)
}

#[test]
fn every_line_of_the_draft_is_valid() {
    let (settings, count) = enable_commented_lines(CONFIG_DRAFT);
    assert!(count > 20, "{count}");
    // The limits shown are the defaults.
    assert_eq!(settings.limits, CallLimits::default());
    assert_eq!(settings.budget.run.micro_dollars, Some(5_000_000));
    assert_eq!(settings.budget.session.micro_dollars, Some(25_000_000));
}

#[test]
fn documented_settings_are_valid() {
    let docs = fs::read_to_string(repository().join("docs/reference/settings.md")).unwrap();
    let text = docs
        .split("```toml")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let settings = Settings::default()
        .overlaid(text, "docs/reference/settings.md")
        .unwrap();
    assert_eq!(settings.limits, CallLimits::default());
    assert_eq!(settings.budget.run.seconds, Some(7_200));
}

/// Files in the user's folder need no trust, so nobody else may be able to write them.
#[test]
fn configuration_folder_of_another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let project = TestProject::new();

    // A repository that contains `.config/agentd` must not provide the user's settings.
    let relative = Run::from(project.command(&["log"]).env("HOME", ".").output().unwrap());
    relative.fails(3, &["FileUnusable", "is not an absolute path", "set HOME"]);

    let folder = project.user_folder();
    write(&folder.join("config.toml"), "format = 1\n");
    write(&folder.join("agents.yaml"), "format: 1\nagents: {}\n");
    project.run(&["template", "list"]).ok();
    for path in [
        folder.clone(),
        folder.join("config.toml"),
        folder.join("agents.yaml"),
    ] {
        let before = path.metadata().unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(before.mode() | 0o002)).unwrap();
        project.run(&["template", "list"]).fails(
            3,
            &["FileUnusable", "is writable by other users", "chmod go-w"],
        );
        fs::set_permissions(&path, before).unwrap();
    }

    project.run(&["template", "list"]).ok();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(folder.join("agents.yaml"), Some(65_534), None).unwrap();
        project
            .run(&["template", "list"])
            .fails(3, &["agents.yaml` belongs to another user"]);
    }
}
