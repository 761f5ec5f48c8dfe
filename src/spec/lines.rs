//! Markdown by lines: which are headings, and which stand in a code fence, where nothing is structure.

use super::Fault;

/// A line of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Its number in the file, from 1.
    pub(super) number: usize,
    /// Where it starts in the text.
    pub(super) start: usize,
    /// The line without its end.
    pub(super) text: &'a str,
    /// What it is.
    pub(super) kind: Kind<'a>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// Text outside of fences.
    Text,
    /// A heading: how many `#`, and the words behind them.
    Heading(usize, &'a str),
    /// The start of a code fence, and the word that names its language.
    Open(&'a str),
    /// A line inside of a fence.
    Code,
    /// The end of a fence.
    Close,
}

impl Line<'_> {
    /// Returns how many blanks the line starts with.
    pub(super) fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Tells whether the line belongs to a code fence.
    pub(super) fn is_code(&self) -> bool {
        matches!(self.kind, Kind::Open(_) | Kind::Code | Kind::Close)
    }
}

/// Returns the fault of a line that only says that something will be written: `To be described.`, `TBD`, `…`.
pub(super) fn filler_fault(line: &Line<'_>) -> Option<Fault> {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '…' && c != '.';
    let text = line.text.trim_matches(is_mark);
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches('.').to_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_filler = match words.as_slice() {
        ["tbd" | "todo" | "…" | ""] => !text.is_empty(),
        ["to", "be", _] => true,
        _ => false,
    };
    let is_text = line.kind == Kind::Text && !line.is_blank();
    (is_text && is_filler).then(|| {
        Fault::new(
            line.number,
            format!("`{}` describes nothing", line.text.trim()),
        )
        .with_hint("write it out")
    })
}

/// A fence that has been opened: its character, its length and how far it stands in.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

/// Cuts a text into lines; `first` is the number of its first line.
pub(super) fn lines(text: &str, first: usize) -> Vec<Line<'_>> {
    let mut fence: Option<Fence> = None;
    let mut start = 0;
    let mut found = Vec::new();
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let line = raw.strip_suffix('\n').unwrap_or(raw);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let kind = match &fence {
            Some(open) if open.is_closed_by(line) => {
                fence = None;
                Kind::Close
            }
            Some(_) => Kind::Code,
            None => match opens(line) {
                Some((open, language)) => {
                    fence = Some(open);
                    Kind::Open(language)
                }
                None => {
                    heading(line).map_or(Kind::Text, |(level, title)| Kind::Heading(level, title))
                }
            },
        };
        found.push(Line {
            number: first + index,
            start,
            text: line,
            kind,
        });
        start += raw.len();
    }
    found
}

impl Fence {
    fn is_closed_by(&self, line: &str) -> bool {
        let rest = line.trim_start();
        let run = rest.chars().take_while(|&c| c == self.mark).count();
        run >= self.length
            && line.len() - rest.len() < self.indent + 4
            && rest[run..].trim().is_empty()
    }
}

fn opens(line: &str) -> Option<(Fence, &str)> {
    let rest = line.trim_start();
    let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = rest.chars().take_while(|&c| c == mark).count();
    let info = &rest[length..];
    if length < 3 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let language = info.split_whitespace().next().unwrap_or_default();
    Some((
        Fence {
            mark,
            length,
            indent: line.len() - rest.len(),
        },
        language,
    ))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches(' ');
    let level = rest.bytes().take_while(|&b| b == b'#').count();
    let title = &rest[level..];
    let is_heading = line.len() - rest.len() < 4 && (1..=6).contains(&level);
    if !is_heading || !(title.is_empty() || title.starts_with([' ', '\t'])) {
        return None;
    }
    let title = title.trim();
    // `## Title ##` is closed, `## C#` is not.
    let open = title.trim_end_matches('#');
    let is_closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((level, if is_closed { open.trim_end() } else { title }))
}

/// A document cut into its YAML head and its body.
pub(super) struct Split<'a> {
    /// The YAML between the two lines of `---`; it starts at line 2.
    pub(super) head: Option<&'a str>,
    /// Everything after the head.
    pub(super) body: &'a str,
    /// The number of the body's first line.
    pub(super) first: usize,
    /// Whether a head was opened and is not closed.
    pub(super) is_open: bool,
}

/// Cuts a document.
pub(super) fn split(text: &str) -> Split<'_> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(fence) = lines.next().filter(|line| line.trim_end() == "---") else {
        return Split {
            head: None,
            body: text,
            first: 1,
            is_open: false,
        };
    };
    let mut end = fence.len();
    for (index, line) in lines.enumerate() {
        if line.trim_end() == "---" {
            let (head, body) = (&text[fence.len()..end], &text[end + line.len()..]);
            return Split {
                head: Some(head),
                body,
                first: index + 3,
                is_open: false,
            };
        }
        end += line.len();
    }
    Split {
        head: None,
        body: text,
        first: 1,
        is_open: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        lines(text, 1).into_iter().map(|line| line.kind).collect()
    }

    #[test]
    fn headings_follow_the_rules_of_markdown() {
        assert_eq!(heading("## Title"), Some((2, "Title")));
        assert_eq!(heading("   # A #"), Some((1, "A")));
        assert_eq!(heading("# C#"), Some((1, "C#")));
        assert_eq!(heading("###"), Some((3, "")));
        for line in ["#Title", "    # code", "####### seven", "Title"] {
            assert_eq!(heading(line), None, "{line}");
        }
    }

    #[test]
    fn nothing_inside_a_fence_is_a_heading() {
        let text = "# A\n```md\n# B\n~~~\n````\n# C\n";
        let expected = [
            Kind::Heading(1, "A"),
            Kind::Open("md"),
            Kind::Code,
            Kind::Code,
            Kind::Close,
            Kind::Heading(1, "C"),
        ];
        assert_eq!(kinds(text), expected);
        assert_eq!(
            kinds("~~~\n# A\n```\n"),
            [Kind::Open(""), Kind::Code, Kind::Code],
            "never closed"
        );
        assert_eq!(
            kinds("```not `a` fence\n# A"),
            [Kind::Text, Kind::Heading(1, "A")]
        );
    }

    #[test]
    fn lines_keep_their_number_and_offset_whatever_they_end_with() {
        let found: Vec<_> = lines("a\r\nb\n\nc", 5)
            .iter()
            .map(|line| (line.number, line.start, line.text))
            .collect();
        assert_eq!(found, [(5, 0, "a"), (6, 3, "b"), (7, 5, ""), (8, 6, "c")]);
    }
}
