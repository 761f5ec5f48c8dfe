//! `tasks.md`: lenient reading, ordering, checks, and ticking in place.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::filler::filler_fault;
use super::front_matter::shorten;
use super::{Fault, is_requirement_id, is_spec_id};
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// A task: a checkbox with a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Number, such as `1.1`.
    pub id: String,
    /// Text after the number.
    pub text: String,
    /// True if the checkbox is ticked.
    pub done: bool,
    /// Files that the task lists.
    pub files: Vec<String>,
    /// Requirements that the task lists, such as `add-login#R1`.
    pub specs: Vec<String>,
    /// Numbers of the tasks that must be done first.
    pub depends: Vec<String>,
    /// Line number, from 1.
    pub line: usize,
    /// Lines of the task as written, without trailing white space.
    pub block: String,
}

/// Tasks of a `tasks.md`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// All checkboxes with a number.
    pub tasks: Vec<Task>,
    /// Lines of open checkboxes that have no number and do not belong to a task.
    pub unnumbered: Vec<usize>,
}

/// A named list of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskField {
    Files,
    Specs,
    Depends,
}

/// A line with a checkbox.
struct Checkbox<'a> {
    done: bool,
    rest: &'a str,
}

impl Tasks {
    /// Reads a `tasks.md`. Accepts any text.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut tasks = Self::default();

        // The open task with its indentation, and the list that may continue below it.
        let mut current: Option<(Task, usize)> = None;
        let mut list: Option<(TaskField, usize)> = None;
        let mut blanks = 0;

        for line in markdown_lines(text, 1) {
            if line.is_blank() {
                blanks += 1;
                continue;
            }

            let checkbox = read_checkbox(&line);

            if let Some((id, rest)) = checkbox
                .as_ref()
                .and_then(|checkbox| split_number(checkbox.rest))
            {
                tasks.tasks.extend(current.take().map(|(task, _)| task));
                let task = Task {
                    id: id.to_owned(),
                    text: rest.to_owned(),
                    done: checkbox.is_some_and(|checkbox| checkbox.done),
                    line: line.number,
                    block: line.text.trim_end().to_owned(),
                    ..Task::default()
                };
                current = Some((task, line.indent()));
                list = None;
            } else if let Some((task, _)) = current
                .as_mut()
                .filter(|(_, indent)| is_part_of_task(&line, *indent))
            {
                task.block.extend(std::iter::repeat_n('\n', blanks + 1));
                task.block.push_str(line.text.trim_end());
                list = if line.is_code() {
                    None
                } else {
                    read_detail(task, &line, list)
                };
            } else {
                tasks.tasks.extend(current.take().map(|(task, _)| task));
                if checkbox.is_some_and(|checkbox| !checkbox.done) {
                    tasks.unnumbered.push(line.number);
                }
            }

            blanks = 0;
        }

        tasks.tasks.extend(current.map(|(task, _)| task));
        tasks
    }

    /// Returns the tasks that are not done, in document order.
    #[must_use]
    pub fn open(&self) -> Vec<&Task> {
        self.tasks.iter().filter(|task| !task.done).collect()
    }

    /// Returns the tasks, each after its dependencies, otherwise in document order.
    ///
    /// # Errors
    ///
    /// Fails if the dependencies form a cycle. The fault lists the tasks of the cycle.
    pub fn order(&self) -> Result<Vec<&Task>, Fault> {
        let places = self.indices_by_id();
        let mut states = vec![VisitState::New; self.tasks.len()];
        let mut order = Vec::new();

        for start in 0..self.tasks.len() {
            // Path from the start; for each task, the number of dependencies already visited.
            let mut path = if states[start] == VisitState::New {
                vec![(start, 0)]
            } else {
                Vec::new()
            };

            while let Some((at, visited)) = path.last_mut() {
                states[*at] = VisitState::Begun;
                let Some(id) = self.tasks[*at].depends.get(*visited) else {
                    states[*at] = VisitState::Placed;
                    order.push(&self.tasks[*at]);
                    path.pop();
                    continue;
                };

                *visited += 1;
                let Some(&next) = places.get(id.as_str()) else {
                    continue;
                };
                match states[next] {
                    VisitState::New => path.push((next, 0)),
                    VisitState::Placed => {}
                    VisitState::Begun => return Err(self.cycle_fault(&path, next)),
                }
            }
        }

        Ok(order)
    }

    fn cycle_fault(&self, path: &[(usize, usize)], from: usize) -> Fault {
        let start = path
            .iter()
            .position(|(at, _)| *at == from)
            .unwrap_or_default();
        let ids: Vec<&str> = path[start..]
            .iter()
            .map(|(at, _)| *at)
            .chain([from])
            .map(|at| self.tasks[at].id.as_str())
            .collect();
        Fault::new(
            self.tasks[from].line,
            format!("circular dependency of tasks: {}", ids.join(" -> ")),
        )
    }

    /// Returns the index of each task by its number; the first index if a number is duplicated.
    fn indices_by_id(&self) -> BTreeMap<&str, usize> {
        self.tasks
            .iter()
            .enumerate()
            .rev()
            .map(|(at, task)| (task.id.as_str(), at))
            .collect()
    }
}

/// State of a task in the depth-first search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    New,
    Begun,
    Placed,
}

/// Returns the faults of a `tasks.md`, by line.
#[must_use]
pub fn check_tasks(text: &str) -> Vec<Fault> {
    let read = Tasks::read(text);
    let mut faults = Vec::new();
    if read.tasks.is_empty() {
        faults.push(
            Fault::new(1, "the file has no tasks").with_hint("write tasks as `- [ ] 1.1 text`"),
        );
    }

    for &line in &read.unnumbered {
        faults.push(
            Fault::new(line, "this task has no number")
                .with_hint("write tasks as `- [ ] 1.1 text`"),
        );
    }

    let mut seen = BTreeMap::new();
    for task in &read.tasks {
        if let Some(first) = seen.insert(&task.id, task.line) {
            faults.push(Fault::new(
                task.line,
                format!("duplicate task `{}`; the first is on line {first}", task.id),
            ));
        }

        if task.text.is_empty() {
            faults.push(Fault::new(
                task.line,
                format!("task `{}` has no text", task.id),
            ));
        }
        let text = MarkdownLine {
            number: task.line,
            start: 0,
            text: &task.text,
            kind: LineKind::Text,
        };
        faults.extend(filler_fault(&text));

        for spec in task
            .specs
            .iter()
            .filter(|spec| parse_reference(spec).is_none())
        {
            let message = format!(
                "invalid requirement reference `{}` in task `{}`",
                shorten(spec),
                task.id
            );
            faults.push(
                Fault::new(task.line, message).with_hint("use the form `spec: add-login#R1`"),
            );
        }
    }

    for task in &read.tasks {
        for id in task.depends.iter().filter(|id| !seen.contains_key(id)) {
            let message = format!(
                "task `{}` depends on the unknown task `{}`",
                task.id,
                shorten(id)
            );
            faults.push(Fault::new(task.line, message));
        }
    }

    faults.extend(read.order().err());
    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Parses a reference to a requirement, such as `add-login#R1`, into the spec id and the
/// requirement id.
pub(super) fn parse_reference(text: &str) -> Option<(&str, &str)> {
    text.split_once('#')
        .filter(|(spec, id)| is_spec_id(spec) && is_requirement_id(id))
}

/// Ticks the checkboxes of some tasks. Every other byte stays the same.
#[must_use]
pub fn tick(text: &str, ids: &[&str]) -> String {
    let ids: BTreeSet<&str> = ids.iter().copied().collect();
    let mut ticked = String::with_capacity(text.len());
    let mut copied = 0;

    for line in markdown_lines(text, 1) {
        let open = read_checkbox(&line).filter(|checkbox| !checkbox.done);
        if open
            .and_then(|checkbox| split_number(checkbox.rest))
            .is_some_and(|(id, _)| ids.contains(id))
        {
            // The space in the brackets of `- [ ]` is 3 bytes after the indentation.
            let at = line.start + line.indent() + 3;
            ticked.push_str(&text[copied..at]);
            ticked.push('x');
            copied = at + 1;
        }
    }

    ticked.push_str(&text[copied..]);
    ticked
}

/// Reads a line with a checkbox.
fn read_checkbox<'a>(line: &MarkdownLine<'a>) -> Option<Checkbox<'a>> {
    let text = line.text.trim_start().strip_prefix(['-', '*', '+'])?;
    let rest = ["[ ]", "[x]", "[X]"]
        .iter()
        .find_map(|mark| Some((text.strip_prefix(' ')?.strip_prefix(mark)?, mark)));
    let (rest, mark) = rest.filter(|_| line.kind == LineKind::Text)?;

    Some(Checkbox {
        done: *mark != "[ ]",
        rest,
    })
}

/// Splits the text after a checkbox into the task number and the rest.
fn split_number(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix(' ')?.trim_start();
    let (word, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (word.contains('.') && word.split('.').all(is_number)).then(|| (word, text.trim()))
}

/// Returns true if a line belongs to a task with this indentation.
fn is_part_of_task(line: &MarkdownLine<'_>, indent: usize) -> bool {
    match line.kind {
        // Code blocks may have any indentation.
        LineKind::Code | LineKind::FenceClose => true,
        _ => line.indent() > indent,
    }
}

/// Reads a line of a task. Returns the list that may continue below it.
fn read_detail(
    task: &mut Task,
    line: &MarkdownLine<'_>,
    list: Option<(TaskField, usize)>,
) -> Option<(TaskField, usize)> {
    let text = line.text.trim();
    let item = text
        .strip_prefix(['-', '*', '+'])
        .unwrap_or(text)
        .trim_start();

    if let Some((name, values)) = item.split_once(':')
        && let Some(field) = find_field(name)
    {
        // `**file:** a` leaves two asterisks before the value.
        let is_split = name.starts_with("**") && !name.trim_end().ends_with("**");
        let values = values
            .strip_prefix("**")
            .filter(|_| is_split)
            .unwrap_or(values);
        task.add_values(field, values);
        return values.trim().is_empty().then_some((field, line.indent()));
    }

    let (field, indent) = list.filter(|(_, indent)| line.indent() > *indent)?;
    task.add_values(field, item);
    Some((field, indent))
}

fn find_field(name: &str) -> Option<TaskField> {
    let name = name
        .trim()
        .trim_matches(['*', '_', '`'])
        .to_ascii_lowercase();
    match name.as_str() {
        "file" | "files" => Some(TaskField::Files),
        "spec" | "specs" => Some(TaskField::Specs),
        "depends" | "depends on" | "dependency" | "dependencies" => Some(TaskField::Depends),
        _ => None,
    }
}

impl Task {
    fn add_values(&mut self, field: TaskField, values: &str) {
        let is_separator =
            |c: char| c == ',' || (field != TaskField::Files && (c.is_whitespace() || c == ';'));
        let values = values
            .split(is_separator)
            .map(|value| value.trim().trim_matches('`').trim())
            .filter(|value| !matches!(*value, "" | "-" | "none" | "None"))
            .map(str::to_owned);

        match field {
            TaskField::Files => self.files.extend(values),
            TaskField::Specs => self.specs.extend(values),
            TaskField::Depends => self.depends.extend(values),
        }
    }
}
