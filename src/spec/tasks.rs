//! `tasks.md`: read tolerantly, put in order, checked, ticked in place.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::filler::filler_fault;
use super::head::shown;
use super::{Fault, is_requirement_id, is_spec_id};
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// A task: a box with a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Its number, such as `1.1`.
    pub id: String,
    /// What is to be done, in the words behind the number.
    pub text: String,
    /// Whether its box is ticked.
    pub done: bool,
    /// The files it names.
    pub files: Vec<String>,
    /// The requirements it names, such as `add-login#R1`.
    pub specs: Vec<String>,
    /// The tasks that come before it.
    pub depends: Vec<String>,
    /// Its line, from 1.
    pub line: usize,
    /// Its lines as written, without blanks at their ends.
    pub block: String,
}

/// The tasks of a `tasks.md`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// Every box with a number.
    pub tasks: Vec<Task>,
    /// The lines of open boxes that have no number and belong to no task.
    pub unnumbered: Vec<usize>,
}

/// A list under a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Files,
    Specs,
    Depends,
}

/// A line with a box: whether it is ticked, and what stands behind it.
struct Boxed<'a> {
    done: bool,
    rest: &'a str,
}

impl Tasks {
    /// Reads a `tasks.md`; any text is one.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut found = Self::default();
        // The task that the line may belong to, how far it stands in, and the list that goes on below.
        let mut current: Option<(Task, usize)> = None;
        let mut list: Option<(Field, usize)> = None;
        let mut blanks = 0;
        for line in markdown_lines(text, 1) {
            if line.is_blank() {
                blanks += 1;
                continue;
            }
            let boxed = boxed(&line);
            if let Some((id, rest)) = boxed.as_ref().and_then(|found| number(found.rest)) {
                found.tasks.extend(current.take().map(|(task, _)| task));
                let task = Task {
                    id: id.to_owned(),
                    text: rest.to_owned(),
                    done: boxed.is_some_and(|found| found.done),
                    line: line.number,
                    block: line.text.trim_end().to_owned(),
                    ..Task::default()
                };
                current = Some((task, line.indent()));
                list = None;
            } else if let Some((task, _)) = current
                .as_mut()
                .filter(|(_, indent)| belongs(&line, *indent))
            {
                task.block.extend(std::iter::repeat_n('\n', blanks + 1));
                task.block.push_str(line.text.trim_end());
                list = if line.is_code() {
                    None
                } else {
                    detail(task, &line, list)
                };
            } else {
                found.tasks.extend(current.take().map(|(task, _)| task));
                if boxed.is_some_and(|found| !found.done) {
                    found.unnumbered.push(line.number);
                }
            }
            blanks = 0;
        }
        found.tasks.extend(current.map(|(task, _)| task));
        found
    }

    /// Returns the tasks that are not done, as written.
    #[must_use]
    pub fn open(&self) -> Vec<&Task> {
        self.tasks.iter().filter(|task| !task.done).collect()
    }

    /// Returns the tasks, each after those it depends on, and else as written.
    ///
    /// # Errors
    ///
    /// A circle, with the tasks in it.
    pub fn order(&self) -> Result<Vec<&Task>, Fault> {
        let places = self.places();
        let mut states = vec![State::New; self.tasks.len()];
        let mut order = Vec::new();
        for start in 0..self.tasks.len() {
            // The way from the start, each task with how many of its dependencies were looked at.
            let mut way = if states[start] == State::New {
                vec![(start, 0)]
            } else {
                Vec::new()
            };
            while let Some((at, looked)) = way.last_mut() {
                states[*at] = State::Begun;
                let Some(id) = self.tasks[*at].depends.get(*looked) else {
                    states[*at] = State::Placed;
                    order.push(&self.tasks[*at]);
                    way.pop();
                    continue;
                };
                *looked += 1;
                let Some(&next) = places.get(id.as_str()) else {
                    continue;
                };
                match states[next] {
                    State::New => way.push((next, 0)),
                    State::Placed => {}
                    State::Begun => return Err(self.circle(&way, next)),
                }
            }
        }
        Ok(order)
    }

    fn circle(&self, way: &[(usize, usize)], from: usize) -> Fault {
        let start = way
            .iter()
            .position(|(at, _)| *at == from)
            .unwrap_or_default();
        let ids: Vec<&str> = way[start..]
            .iter()
            .map(|(at, _)| *at)
            .chain([from])
            .map(|at| self.tasks[at].id.as_str())
            .collect();
        Fault::new(
            self.tasks[from].line,
            format!("tasks wait for each other: {}", ids.join(" -> ")),
        )
    }

    /// Returns where the tasks stand, by their number; of a number that stands twice, the first.
    fn places(&self) -> BTreeMap<&str, usize> {
        self.tasks
            .iter()
            .enumerate()
            .rev()
            .map(|(at, task)| (task.id.as_str(), at))
            .collect()
    }
}

/// How far a task has come to its place in the order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Begun,
    Placed,
}

/// Checks a `tasks.md`.
#[must_use]
pub fn check_tasks(text: &str) -> Vec<Fault> {
    let read = Tasks::read(text);
    let mut faults = Vec::new();
    if read.tasks.is_empty() {
        faults.push(Fault::new(1, "there is no task").with_hint("write tasks as `- [ ] 1.1 text`"));
    }
    for &line in &read.unnumbered {
        faults.push(
            Fault::new(line, "this box has no number").with_hint("write tasks as `- [ ] 1.1 text`"),
        );
    }
    let mut seen = BTreeMap::new();
    for task in &read.tasks {
        if let Some(first) = seen.insert(&task.id, task.line) {
            faults.push(Fault::new(
                task.line,
                format!("`{}` stands twice; the first is on line {first}", task.id),
            ));
        }
        if task.text.is_empty() {
            faults.push(Fault::new(task.line, format!("`{}` says nothing", task.id)));
        }
        let text = MarkdownLine {
            number: task.line,
            start: 0,
            text: &task.text,
            kind: LineKind::Text,
        };
        faults.extend(filler_fault(&text));
        for spec in task.specs.iter().filter(|spec| reference(spec).is_none()) {
            let message = format!("`{}` of `{}` names no requirement", shown(spec), task.id);
            faults.push(
                Fault::new(task.line, message).with_hint("write it like `spec: add-login#R1`"),
            );
        }
    }
    for task in &read.tasks {
        for id in task.depends.iter().filter(|id| !seen.contains_key(id)) {
            let message = format!("`{}` depends on `{}`, which is no task", task.id, shown(id));
            faults.push(Fault::new(task.line, message));
        }
    }
    faults.extend(read.order().err());
    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Returns the spec and the requirement of a reference such as `add-login#R1`.
pub(super) fn reference(text: &str) -> Option<(&str, &str)> {
    text.split_once('#')
        .filter(|(spec, id)| is_spec_id(spec) && is_requirement_id(id))
}

/// Ticks the boxes of some tasks; every other byte stays as it is.
#[must_use]
pub fn tick(text: &str, ids: &[&str]) -> String {
    let ids: BTreeSet<&str> = ids.iter().copied().collect();
    let mut ticked = String::with_capacity(text.len());
    let mut copied = 0;
    for line in markdown_lines(text, 1) {
        let open = boxed(&line).filter(|found| !found.done);
        if open
            .and_then(|found| number(found.rest))
            .is_some_and(|(id, _)| ids.contains(id))
        {
            // The blank of `- [ ]` is the third character behind the indent.
            let at = line.start + line.indent() + 3;
            ticked.push_str(&text[copied..at]);
            ticked.push('x');
            copied = at + 1;
        }
    }
    ticked.push_str(&text[copied..]);
    ticked
}

/// Tells a line with a box.
fn boxed<'a>(line: &MarkdownLine<'a>) -> Option<Boxed<'a>> {
    let text = line.text.trim_start().strip_prefix(['-', '*', '+'])?;
    let rest = ["[ ]", "[x]", "[X]"]
        .iter()
        .find_map(|mark| Some((text.strip_prefix(' ')?.strip_prefix(mark)?, mark)));
    let (rest, mark) = rest.filter(|_| line.kind == LineKind::Text)?;
    Some(Boxed {
        done: *mark != "[ ]",
        rest,
    })
}

/// Returns the number at the start of what stands behind a box, and the rest.
fn number(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix(' ')?.trim_start();
    let (word, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (word.contains('.') && word.split('.').all(digits)).then(|| (word, text.trim()))
}

/// Tells whether a line belongs to a task that stands so far in.
fn belongs(line: &MarkdownLine<'_>, indent: usize) -> bool {
    match line.kind {
        // Code keeps its own indent.
        LineKind::Code | LineKind::FenceClose => true,
        _ => line.indent() > indent,
    }
}

/// Reads a line of a task; returns the list that may go on below it.
fn detail(
    task: &mut Task,
    line: &MarkdownLine<'_>,
    list: Option<(Field, usize)>,
) -> Option<(Field, usize)> {
    let text = line.text.trim();
    let item = text
        .strip_prefix(['-', '*', '+'])
        .unwrap_or(text)
        .trim_start();
    if let Some((name, values)) = item.split_once(':')
        && let Some(field) = field(name)
    {
        // `**file:** a` leaves two stars with the value.
        let is_split = name.starts_with("**") && !name.trim_end().ends_with("**");
        let values = values
            .strip_prefix("**")
            .filter(|_| is_split)
            .unwrap_or(values);
        task.add(field, values);
        return values.trim().is_empty().then_some((field, line.indent()));
    }
    let (field, indent) = list.filter(|(_, indent)| line.indent() > *indent)?;
    task.add(field, item);
    Some((field, indent))
}

fn field(name: &str) -> Option<Field> {
    let name = name
        .trim()
        .trim_matches(['*', '_', '`'])
        .to_ascii_lowercase();
    match name.as_str() {
        "file" | "files" => Some(Field::Files),
        "spec" | "specs" => Some(Field::Specs),
        "depends" | "depends on" | "dependency" | "dependencies" => Some(Field::Depends),
        _ => None,
    }
}

impl Task {
    fn add(&mut self, field: Field, values: &str) {
        let is_end =
            |c: char| c == ',' || (field != Field::Files && (c.is_whitespace() || c == ';'));
        let values = values
            .split(is_end)
            .map(|value| value.trim().trim_matches('`').trim());
        let values = values
            .filter(|value| !matches!(*value, "" | "-" | "none" | "None"))
            .map(str::to_owned);
        match field {
            Field::Files => self.files.extend(values),
            Field::Specs => self.specs.extend(values),
            Field::Depends => self.depends.extend(values),
        }
    }
}
