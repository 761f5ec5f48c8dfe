//! Files whose names suggest secrets are not included in prompts by mistake.

use std::os::unix::fs::symlink;

use crate::support::TestProject;

const CANARY: &str = "canary-5d41402abc4b2a76";

#[test]
fn secret_file_names_are_refused() {
    let project = TestProject::new();
    let names = [
        ".env",
        ".env.local",
        "deploy/production.env",
        ".ENV",
        ".envrc",
        "tls/server.pem",
        "tls/server.key",
        "id_rsa",
        "keys/id_ed25519",
        ".ssh/config",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".aws/credentials",
        ".docker/config.json",
        ".kube/config",
        ".codex/auth.json",
        "config/credentials.json",
        "secrets.yaml",
        "service-account-prod.json",
        "main.tfvars",
    ];

    for name in names {
        project.write(name, format!("KEY={CANARY}\n"));
        for flag in ["--file", "--artifact"] {
            let args = ["prompt", "plan", "Go", flag, name];
            let printed = project
                .run(&args)
                .fails(3, &["usually holds secrets", "--force-secret-files"]);
            assert!(!printed.contains(CANARY), "{name}");
        }

        let forced = project
            .run(&[
                "prompt",
                "plan",
                "Go",
                "--file",
                name,
                "--force-secret-files",
            ])
            .ok();
        assert!(forced.contains(CANARY), "{name}");
    }

    // The project tree shows only their names.
    let prompt = project.run(&["prompt", "plan", "Go"]).ok();
    assert!(prompt.contains("server.pem") && !prompt.contains(CANARY));
}

#[test]
fn links_do_not_hide_secret_files() {
    let project = TestProject::new();
    project.write(".env", CANARY).write("sub/x", "");
    symlink(".env", project.root().join("notes.txt")).unwrap();
    for name in ["notes.txt", "./.env", "sub/../.env", "sub/../notes.txt"] {
        project
            .run(&["prompt", "plan", "Go", "--file", name])
            .fails(3, &["usually holds secrets"]);
    }
}

#[test]
fn similar_names_are_shown() {
    let project = TestProject::new();
    let names = [
        ".env.example",
        ".env.sample",
        "src/env.rs",
        "environment.md",
        "src/credentials.rs",
        "docs/secrets.md",
        "keys/id_rsa.pub",
        "config.json",
        "monkey.txt",
        "config",
    ];
    for name in names {
        project.write(name, "harmless words");
        let prompt = project.run(&["prompt", "plan", "Go", "--file", name]).ok();
        assert!(prompt.contains("harmless words"), "{name}");
    }
}
