//! The scripted model server, started for a test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program;

/// A server that answers from its script, and exits when this value is dropped.
pub(crate) struct ModelServer {
    child: Child,
    folder: TempDir,
    url: String,
}

impl ModelServer {
    /// Starts a server with the replies of a script, as JSON. The keys are those of
    /// `tests/support/programs/model_server/script.rs`.
    pub(crate) fn start(replies: &Value) -> Self {
        let script = serde_json::json!({"format": 1, "replies": replies});
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("script.yaml"), script.to_string()).unwrap();
        let mut command = Command::new(program("model_server"));
        for (flag, name) in [
            ("--script", "script.yaml"),
            ("--log", "log"),
            ("--bodies", "bodies"),
            ("--prompt", "prompt"),
        ] {
            command.arg(flag).arg(folder.path().join(name));
        }

        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();

        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url:?}");

        Self {
            child,
            folder,
            url: url.trim_end().to_owned(),
        }
    }

    /// Returns the address, as `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the file with the text that requests are searched for. It is read again for each
    /// request.
    pub(crate) fn prompt(&self) -> PathBuf {
        self.folder.path().join("prompt")
    }

    /// Returns the requests so far. The keys are those of
    /// `tests/support/programs/model_server/log.rs`.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        // The server may be writing a line at this moment.
        let lines = log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the body of a request. The first request has number 1.
    pub(crate) fn body(&self, number: usize) -> String {
        fs::read_to_string(Path::join(self.folder.path(), format!("bodies/{number}"))).unwrap()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ended = self.child.wait();
    }
}
