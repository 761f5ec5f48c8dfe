//! Decides the verdict of a reply.
//!
//! PASS is valid only as the last line of the reply, with this turn's `run`. A more severe verdict
//! is valid anywhere outside thoughts, with this turn's `run`; the most severe wins. Everything else
//! leaves the verdict unclear.

use std::ops::{Deref, Range};

use super::ResponseBuilder;
use crate::models::{EffectKind, Marker, ProblemCode, ReviewResult, VerdictDoubt};
use crate::parse::call;
use crate::parse::echo::EchoSource;
use crate::parse::foreign::contains;
use crate::parse::review::{ReviewTag, TagValue, is_formatting};
use crate::parse::scan::{EffectPlace, ScanResult};
use crate::parse::tag::{TagName, TagNames};
use crate::parse::verdict_line::{is_label, is_verdict_line, stated_verdict};
use crate::text::invisible::is_invisible;

/// Maximum number of doubts in a response. A doubt is a reason why the verdict of a reply is unclear; while there is one,
/// a PASS does not count.
const MAX_DOUBTS: usize = 16;

/// Result of comparing the `run` attribute of a tag with the nonce of this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunMatch {
    Right,
    Wrong,
    Missing,
}

/// A `<review>` tag that may state the agent's verdict.
struct CandidateTag<'a> {
    tag: &'a ReviewTag,
    /// True if the tag and the prose around it repeat the prompt.
    is_echo: bool,
    /// True if the repeated text is prose of the pack.
    is_ours: bool,
}

impl Deref for CandidateTag<'_> {
    type Target = ReviewTag;

    fn deref(&self) -> &ReviewTag {
        self.tag
    }
}

impl ResponseBuilder<'_> {
    /// Adds the marker of the verdict to the response, or the reasons why it is unclear.
    pub(super) fn decide_verdict(
        &mut self,
        found: &ScanResult,
        echoes: &[Option<EchoSource>],
        names: &TagNames,
    ) {
        if self.grammar.verdicts.is_empty() {
            return self.note_stray_verdicts(found, echoes);
        }
        let candidate_tags = self.candidate_tags(found, echoes);
        let severe = candidate_tags
            .iter()
            .filter_map(|tag| self.severe_verdict(found, tag))
            .max();
        let passes = || candidate_tags.iter().rev().filter(|tag| self.may_pass(tag));
        let pass = passes()
            .find(|tag| !self.is_in_block(tag.span.start))
            .or_else(|| passes().next());

        if let Some(verdict) = severe {
            if let Some(pass) = pass.filter(|pass| !contains(&found.quotes, pass.span.start)) {
                self.problems
                    .push((ProblemCode::SeveralVerdicts, pass.span.clone()));
            }
            self.response.markers.insert(0, Marker::Review { verdict });
            self.note_quoted_passes(found, &candidate_tags, None);
            return;
        }

        self.note_doubts(found, &candidate_tags);
        self.note_stated_line(found);
        let passes = pass.is_some_and(|pass| self.judge_pass(found, names, pass));
        if !passes {
            self.note_quoted(found, &candidate_tags);
        }

        if let Some(stated) = found.other_form {
            let reason = format!("{stated} is not in a <review> tag");
            self.add_doubt(reason, Some(stated), 0..self.text.len());
        }

        let valid_pass = pass.filter(|_| passes && self.response.verdict_doubts.is_empty());
        self.note_quoted_passes(found, &candidate_tags, valid_pass.map(|tag| tag.span.start));
        if valid_pass.is_some() {
            self.response.markers.insert(
                0,
                Marker::Review {
                    verdict: ReviewResult::Pass,
                },
            );
        }
    }

    /// Adds the first verdict of a reply in a mode without verdicts, so that it is refused later.
    /// Verdicts in code, in quotes and in text repeated from the prompt are not reported.
    fn note_stray_verdicts(&mut self, found: &ScanResult, echoes: &[Option<EchoSource>]) {
        for (tag, echo) in found.review_tags.iter().zip(echoes) {
            let is_marker = found
                .markers
                .binary_search_by_key(&tag.span.start, |marker| marker.span.start)
                .is_ok();
            if let (TagValue::Verdict(verdict), true, None) = (tag.value, is_marker, echo)
                && (verdict > ReviewResult::Pass || !self.context.is_cut())
            {
                self.response.markers.insert(0, Marker::Review { verdict });
                return;
            }
        }
    }

    /// Returns the tags outside thoughts that contain one verdict or are unreadable.
    fn candidate_tags<'f>(
        &mut self,
        found: &'f ScanResult,
        echoes: &[Option<EchoSource>],
    ) -> Vec<CandidateTag<'f>> {
        let mut candidates = Vec::new();
        for (tag, echo) in found.review_tags.iter().zip(echoes) {
            let at = tag.span.start;
            let is_thought =
                contains(&found.thoughts, at) && !contains(&found.possible_thoughts, at);
            if is_thought || at >= found.end || tag.value == TagValue::Choice {
                continue;
            }

            if self.is_text_of_a_file(found, tag) {
                self.problems
                    .push((ProblemCode::QuotedEffect, tag.span.clone()));
            } else if echo.is_some() {
                self.problems.push((ProblemCode::Echo, tag.span.clone()));
            }

            let has_right_run =
                self.context.nonce.is_none() || self.run_match(tag) == RunMatch::Right;
            if echo.is_none() && !has_right_run && !self.is_text_of_a_file(found, tag) {
                self.problems
                    .push((ProblemCode::WrongRun, tag.span.clone()));
            }

            candidates.push(CandidateTag {
                tag,
                is_echo: echo.is_some(),
                is_ours: *echo == Some(EchoSource::Ours),
            });
        }
        candidates
    }

    /// Returns true if a tag says PASS and may be the agent's verdict. Without a nonce, a PASS in a
    /// document of the reply is ignored, because another author may have written it.
    fn may_pass(&self, tag: &CandidateTag<'_>) -> bool {
        let is_document = self.context.nonce.is_none() && self.is_in_block(tag.span.start);
        tag.value == TagValue::Verdict(ReviewResult::Pass) && !is_document
    }

    /// Returns the verdict of a tag that is valid anywhere: more severe than PASS, with this turn's
    /// `run`.
    fn severe_verdict(&self, found: &ScanResult, tag: &CandidateTag<'_>) -> Option<ReviewResult> {
        let TagValue::Verdict(verdict) = tag.value else {
            return None;
        };
        let is_right = match self.run_match(tag) {
            RunMatch::Right => true,
            RunMatch::Wrong => false,
            // Without a nonce, another author may have written a verdict in a document of the reply.
            RunMatch::Missing => self.context.nonce.is_none() && !self.is_in_block(tag.span.start),
        };
        let is_certain = !contains(&found.possible_thoughts, tag.span.start)
            && !self.form.partly_converted
            && !tag.is_echo;
        (verdict > ReviewResult::Pass && is_right && is_certain).then_some(verdict)
    }

    fn run_match(&self, tag: &ReviewTag) -> RunMatch {
        match (self.context.nonce, tag.run.as_deref()) {
            (Some(nonce), Some(run)) if nonce == run => RunMatch::Right,
            (Some(_), Some(_)) => RunMatch::Wrong,
            // If the prompt has no nonce, no `run` can be wrong.
            (Some(_) | None, _) => RunMatch::Missing,
        }
    }

    fn is_in_block(&self, at: usize) -> bool {
        contains(&self.blocks, at)
    }

    /// Adds a doubt for each tag that is not valid and contradicts a PASS.
    fn note_doubts(&mut self, found: &ScanResult, tags: &[CandidateTag<'_>]) {
        for tag in tags {
            let run = self.run_match(tag);
            if self.is_quoted(found, tag) {
                continue;
            }

            // A tag with the `run` of another turn may be copied from a file. Its verdict is not a
            // lower bound for the answer to a repair.
            let is_lower_bound = run != RunMatch::Wrong;
            match tag.value {
                TagValue::Verdict(ReviewResult::Pass) | TagValue::Choice => {}
                TagValue::Verdict(verdict) => {
                    let reason = match run {
                        RunMatch::Right => {
                            format!("{verdict} may be in an unclosed thought")
                        }
                        RunMatch::Wrong => {
                            format!("{verdict} has the `run` attribute of another turn")
                        }
                        RunMatch::Missing if self.context.nonce.is_none() => {
                            format!("it is unclear whether {verdict} is the agent's own verdict")
                        }
                        RunMatch::Missing => {
                            format!("{verdict} lacks the `run` attribute of this turn")
                        }
                    };
                    self.add_doubt(
                        reason,
                        Some(verdict).filter(|_| is_lower_bound),
                        tag.span.clone(),
                    );
                }
                TagValue::Unreadable(most_severe) => {
                    let values: Vec<&str> = self
                        .grammar
                        .verdicts
                        .iter()
                        .map(|verdict| verdict.name())
                        .collect();
                    let reason = format!(
                        "the <review> tag does not contain one of {}",
                        values.join(", ")
                    );
                    let stated = most_severe
                        .filter(|verdict| *verdict > ReviewResult::Pass && is_lower_bound);
                    self.add_doubt(reason, stated, tag.span.clone());
                }
            }
        }
    }

    /// Returns true if a tag may be copied from text that the agent did not write, such as a file or the
    /// prompt. Such a tag does not contradict a valid PASS; without one, it makes the verdict unclear.
    fn is_quoted(&self, found: &ScanResult, tag: &CandidateTag<'_>) -> bool {
        let is_document = self.context.nonce.is_none() && self.is_in_block(tag.span.start);
        // Without a nonce, the agent's own text may be the same as the text of a file.
        let is_echo = tag.is_ours || (tag.is_echo && self.context.nonce.is_some());
        is_echo || is_document || self.is_text_of_a_file(found, tag)
    }

    /// Returns true if a tag is text of a file: in code, in a quote or in a document, without this
    /// turn's `run`.
    fn is_text_of_a_file(&self, found: &ScanResult, tag: &ReviewTag) -> bool {
        let at = tag.span.start;
        let is_inside = contains(&found.quotes, at) || self.is_in_block(at);
        is_inside && self.context.nonce.is_some() && self.run_match(tag) != RunMatch::Right
    }

    /// Reports every PASS in code or in a quote, except the valid one at offset `valid`.
    fn note_quoted_passes(
        &mut self,
        found: &ScanResult,
        tags: &[CandidateTag<'_>],
        valid: Option<usize>,
    ) {
        for tag in tags
            .iter()
            .filter(|tag| tag.value == TagValue::Verdict(ReviewResult::Pass))
        {
            let at = tag.span.start;
            if contains(&found.quotes, at)
                && !self.is_text_of_a_file(found, tag)
                && valid != Some(at)
            {
                self.problems
                    .push((ProblemCode::QuotedEffect, tag.span.clone()));
            }
        }
    }

    /// Adds a doubt if a verdict worse than PASS appears in code, in a quote or in text repeated from
    /// the prompt. Called only without a valid PASS: then it may be the agent's own verdict.
    fn note_quoted(&mut self, found: &ScanResult, tags: &[CandidateTag<'_>]) {
        let worse_than_pass = |tag: &CandidateTag<'_>| match tag.value {
            TagValue::Verdict(verdict) => {
                Some(verdict).filter(|verdict| *verdict > ReviewResult::Pass)
            }
            TagValue::Choice | TagValue::Unreadable(_) => None,
        };
        let may_be_meant = |tag: &&CandidateTag<'_>| {
            self.is_quoted(found, tag)
                && !self.is_in_block(tag.span.start)
                && worse_than_pass(tag).is_some()
        };
        if let Some(tag) = tags
            .iter()
            .filter(may_be_meant)
            .max_by_key(|tag| worse_than_pass(tag))
        {
            let reason =
                "a verdict in code, in a quote or in text of the prompt is uncertain".to_owned();
            self.add_doubt(reason, worse_than_pass(tag), tag.span.clone());
        }
    }

    /// Returns true if the last PASS of the reply is valid. Otherwise adds the reason to the response.
    fn judge_pass(
        &mut self,
        found: &ScanResult,
        names: &TagNames,
        pass: &CandidateTag<'_>,
    ) -> bool {
        if let Some(reason) = self.pass_fault(found, names, pass) {
            self.problems
                .push((ProblemCode::UncertainPass, pass.span.clone()));
            self.reject(review_place(&pass.span), reason, false);
            // If no verdict is required, an invalid PASS is ignored.
            if self.grammar.verdict_required {
                self.add_doubt(reason.to_owned(), None, pass.span.clone());
            }
            return false;
        }
        if let Some(action) = &found.hidden_action {
            self.refuse_hidden_action(names, action);
        }
        true
    }

    /// Rejects an action in code or in a quote. Next to a PASS it may be a finding, so a repair
    /// asks for it.
    fn refuse_hidden_action(&mut self, names: &TagNames, span: &Range<usize>) {
        let name = names
            .read_tag(&self.text[span.start..])
            .and_then(|tag| match tag.name {
                TagName::Call(form) => {
                    call::find_action_name(form, tag.attributes, "", self.grammar)
                }
                _ => None,
            });

        let again = name
            .as_ref()
            .is_some_and(|name| self.grammar.actions.contains_key(name));
        let what = EffectKind::action(&name.unwrap_or_default());

        self.reject(
            EffectPlace {
                what,
                span: span.clone(),
            },
            "the action is in code or in a quote",
            again,
        );
    }

    /// Adds a doubt for a heading or a label that states a more severe verdict without a tag.
    fn note_stated_line(&mut self, found: &ScanResult) {
        if let Some((line, verdict)) = self.stated_line(found) {
            self.problems
                .push((ProblemCode::SeveralVerdicts, line.clone()));
            let reason = format!("this line says {verdict}, but not in a <review> tag");
            self.add_doubt(reason, Some(verdict), line);
        }
    }

    /// Returns the reason why a PASS is not valid; `None` if it is valid.
    fn pass_fault(
        &self,
        found: &ScanResult,
        names: &TagNames,
        pass: &CandidateTag<'_>,
    ) -> Option<&'static str> {
        if self.context.is_cut() {
            return Some("the reply was cut off");
        }

        if pass.is_echo {
            return Some("the PASS verdict repeats the prompt");
        }

        match self.run_match(pass) {
            RunMatch::Wrong => return Some("PASS has the `run` attribute of another turn"),
            RunMatch::Missing if self.context.nonce.is_some() => {
                return Some("PASS lacks the `run` attribute of this turn");
            }
            RunMatch::Right | RunMatch::Missing => {}
        }

        if !pass.is_plain {
            return Some("the <review> tag of PASS has an attribute other than `run`");
        }

        if found.open {
            return Some("the reply ends inside an unclosed tag");
        }

        let at = pass.span.start;
        let may_be_inside = contains(&found.unclear, at) || contains(&found.possible_thoughts, at);
        if self.may_be_in_thought(at) || may_be_inside {
            return Some("PASS may be inside an unclosed tag or thought");
        }

        if self.form.partly_converted {
            return Some("the <review> tag is not written with `<` and `>`");
        }
        self.last_line_fault(found, names, pass)
    }

    /// Returns the reason why a PASS is not alone on the last line of the reply; `None` if it is alone
    /// there. Blank lines, closing fences, `</message>` and complete blocks may follow that line.
    fn last_line_fault(
        &self,
        found: &ScanResult,
        names: &TagNames,
        pass: &ReviewTag,
    ) -> Option<&'static str> {
        let end = self.end_of_prose(found, names);
        let after = self
            .text
            .get(pass.span.end..end)
            .filter(|after| !after.contains('\n'));
        let Some(after) = after else {
            return Some("PASS is valid only as the last line of the reply");
        };

        let line_start = self.text[..pass.span.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let before = self.without_cuts(found, line_start..pass.span.start);
        let has_run = self.context.nonce.is_some();
        if !is_verdict_line(&before, after, has_run) || (!has_run && is_indented(&before)) {
            return Some("the last line must contain only the verdict");
        }

        let fence = found
            .fences
            .iter()
            .find(|fence| fence.contains(&pass.span.start));
        let line_start = match fence {
            Some(fence) if has_run && self.is_alone_in_fence(fence, &(line_start..end)) => {
                fence.start
            }
            Some(_) => return Some("the code fence around PASS contains other text"),
            None => line_start,
        };

        // A line that ends with a colon may introduce a quote or an example. A label, such as
        // `Verdict:`, introduces the verdict itself.
        let above = self.text[..line_start]
            .strip_suffix('\n')
            .unwrap_or_default();
        let above = above
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .trim_end_matches(is_formatting);
        let introduces = above.ends_with([':', '：']) && !is_label(above);
        introduces.then_some("the line before PASS ends with a colon, so PASS may be a quote")
    }

    /// Returns the text of a span without its hidden parts: thoughts, blocks and message tags.
    fn without_cuts(&self, found: &ScanResult, span: Range<usize>) -> String {
        let mut out = String::new();
        let mut at = span.start;
        let first = found.cuts.partition_point(|cut| cut.span.end <= span.start);
        for cut in found.cuts[first..]
            .iter()
            .take_while(|cut| cut.span.start < span.end)
        {
            out.push_str(&self.text[at..cut.span.start.clamp(at, span.end)]);
            at = cut.span.end.clamp(at, span.end);
        }
        out + &self.text[at..span.end]
    }

    /// Returns the end of the reply's prose: before blank lines, closing fences, `</message>` and
    /// complete blocks.
    fn end_of_prose(&self, found: &ScanResult, names: &TagNames) -> usize {
        let mut end = found.end;
        loop {
            let is_blank = |c: char| c.is_whitespace() || c.is_control() || is_invisible(c);
            let text = self.text[..end].trim_end_matches(is_blank);
            end = text.len();

            let blocks = self.blocks.partition_point(|block| block.end < end);
            if let Some(block) = self.blocks.get(blocks).filter(|block| block.end == end) {
                end = block.start;
                continue;
            }

            let unfenced =
                text.trim_end_matches(|c: char| text.ends_with(c) && matches!(c, '`' | '~'));
            let before_fence = unfenced.trim_end_matches([' ', '\t']);
            if text.len() - unfenced.len() >= 3
                && (before_fence.is_empty() || before_fence.ends_with('\n'))
            {
                end = before_fence.len();
                continue;
            }

            let closer = text
                .rfind("</")
                .filter(|at| is_trailing_closer(&text[*at..], names));
            match closer {
                Some(at) => end = at,
                None => return end,
            }
        }
    }

    /// Returns true if a fence contains only this line.
    fn is_alone_in_fence(&self, fence: &Range<usize>, line: &Range<usize>) -> bool {
        let text = &self.text[fence.clone()];
        let Some((_, inside)) = text.split_once('\n') else {
            return false;
        };
        let inside = inside.trim_end().trim_end_matches(['`', '~']);
        inside.trim() == self.text[line.clone()].trim()
    }

    /// Returns the first heading or labelled line that states a more severe verdict of the mode
    /// without a tag, outside thoughts, blocks, code and quotes.
    fn stated_line(&self, found: &ScanResult) -> Option<(Range<usize>, ReviewResult)> {
        let mut start = 0;
        for line in self.text[..found.end].split_inclusive('\n') {
            let span = start..start + line.len();
            start = span.end;
            if contains(&found.quotes, span.start) || !line.contains(|c: char| c.is_alphanumeric())
            {
                continue;
            }

            let stated = stated_verdict(&self.without_cuts(found, span.clone()))
                .filter(|verdict| *verdict > ReviewResult::Pass);

            let next_tag = found
                .review_tags
                .partition_point(|tag| tag.span.start < span.start);
            let is_tag = found
                .review_tags
                .get(next_tag)
                .is_some_and(|tag| tag.span.start < span.end);

            let states =
                |verdict: &ReviewResult| !is_tag && self.grammar.verdicts.contains(verdict);
            if let Some(verdict) = stated.filter(states) {
                return Some((span, verdict));
            }
        }
        None
    }

    fn add_doubt(&mut self, reason: String, stated: Option<ReviewResult>, span: Range<usize>) {
        if self.response.verdict_doubts.len() >= MAX_DOUBTS {
            return;
        }
        let line = self.line_of(span.start);
        let span = self.source.raw_span(&span);
        self.response.verdict_doubts.push(VerdictDoubt {
            reason,
            line,
            stated,
            span,
        });
    }
}

/// Returns true if a line is indented like a code block.
fn is_indented(line: &str) -> bool {
    let indent = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    indent.map(|c| if c == '\t' { 4 } else { 1 }).sum::<usize>() >= 4
}

fn review_place(span: &Range<usize>) -> EffectPlace {
    EffectPlace {
        what: EffectKind::Review,
        span: span.clone(),
    }
}

/// Returns true if `text` is exactly one closing tag that may follow the verdict line.
fn is_trailing_closer(text: &str, names: &TagNames) -> bool {
    names.read_tag(text).is_some_and(|tag| {
        tag.closes
            && tag.length == text.len()
            && matches!(tag.name, TagName::Message | TagName::Wrapper)
    })
}
