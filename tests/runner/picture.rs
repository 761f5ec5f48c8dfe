//! The picture of the demo in README.md: what the first command of docs/guide/demo.md prints, with its colours.
//!
//! The page decides which lines are shown. `SNAPSHOTS=overwrite` draws the picture again.

use std::path::Path;

use anstyle::{Color, Effects, RgbColor, Style};
use anstyle_svg::{Term, WIN10_CONSOLE};
use libtest_mimic::Trial;
use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::data::DataFormat;
use snapbox::{Assert, Data, IntoData};

use crate::docs::{Place, first_step, redact};
use crate::support::repository;

/// A dark grey that differs from the background of light and of dark pages.
const BACKGROUND: Color = Color::Rgb(RgbColor(0x1f, 0x24, 0x2e));
const FOREGROUND: Color = Color::Rgb(RgbColor(0xd8, 0xde, 0xe9));

const BOLD: Style = Style::new().effects(Effects::BOLD);
const GREY: Style = Style::new().fg_color(Some(Color::Rgb(RgbColor(0x7b, 0x84, 0x94))));

pub(crate) fn trial() -> Trial {
    Trial::test("docs/demo.svg", || {
        let picture = draw()?;

        let expected = repository().join("docs/demo.svg");
        let expected = Data::read_from(&expected, Some(DataFormat::Text)).raw();
        Assert::new()
            .action_env(DEFAULT_ACTION_ENV)
            .try_eq(Some(&"actual"), picture.into_data(), expected)
            .map_err(|error| error.to_string().into())
    })
}

fn draw() -> Result<String, String> {
    let (command, shown) = first_step(Path::new("docs/guide/demo.md"))?;
    let printed = Place::empty().print(&format!("export CLICOLOR_FORCE=1\n{command}"))?;
    let mut printed = printed.lines();

    let mut text = format!("{GREY}${GREY:#} {BOLD}{command}{BOLD:#}\n");
    for line in shown {
        if line == "…" {
            text.push_str(&format!("{GREY}…{GREY:#}\n"));
            continue;
        }
        let wanted = redact(&line);
        let coloured = printed
            .find(|printed| redact(&without_colours(printed)) == wanted)
            .ok_or_else(|| format!("`{command}` does not print `{line}`"))?;
        text.push_str(&with_colours_of(coloured, &line)?);
        text.push('\n');
    }

    let term = Term::new()
        .palette(WIN10_CONSOLE)
        .fg_color(FOREGROUND)
        .bg_color(BACKGROUND);
    Ok(term.render_svg(text.trim_end()))
}

/// Removes escape sequences for colours, which end with `m`.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

/// Returns a line of the page with the colours of the printed line, which differs in values such as sizes only. Colours
/// are at the start of a line: a label, or the kind of a message.
fn with_colours_of(printed: &str, line: &str) -> Result<String, String> {
    let Some((label, _)) = printed.split_once("\u{1b}[0m") else {
        return Ok(line.to_owned());
    };
    let rest = line
        .strip_prefix(&without_colours(label))
        .ok_or_else(|| format!("colours within `{line}`"))?;
    Ok(format!("{label}\u{1b}[0m{rest}"))
}
