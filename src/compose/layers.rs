//! Fills the layers of a pack with the content of a request: blocks, and elastic sequences of items.

use std::borrow::Cow;

use super::block::{
    BlockIds, BlockVariant, ElasticSequence, KnowledgeSection, PromptBlock, PromptEntry,
    SequenceItems,
};
use super::delimiters::Delimiters;
use super::example::mark_example;
use super::missing_layer::missing_layer_error;
use super::report::AbsentLayer;
use super::state_xml::state_xml;
use super::vars::{self, MissingVariable, PlaceholderValues, VariableUse, Variables};
use super::{PromptRequest, SourcedItem};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    ActionResult, ConversationTurn, Format, KnowledgeEntry, MessageRole, Mode, PromptPart,
    RetentionClass, SectionSource, StateDocument, Tier,
};
use crate::pack::{FactValue, Layer, LayerContent, Pack, ProseText, RuleFacts, file_for};
use crate::text::escape::replace_forbidden;

/// Borrowed content of a prompt, apart from the request.
#[derive(Clone, Copy)]
pub(super) struct PromptInputs<'a> {
    /// Without a mode, layers that depend on it are empty.
    pub(super) mode: Option<&'a Mode>,
    pub(super) document: &'a StateDocument,
    /// Results of the actions of the last turn.
    pub(super) results: &'a [ActionResult],
    /// Entries by rank, best first.
    pub(super) knowledge: &'a [KnowledgeEntry],
    /// Turns, oldest first.
    pub(super) history: &'a [ConversationTurn],
    /// Number of turns before the first of `history`.
    pub(super) history_start: usize,
    /// Risks of the gates that the user skipped, in order.
    pub(super) risks: &'a [String],
}

/// Filled layers of one request.
pub(super) struct FilledLayers<'a> {
    pub(super) entries: Vec<PromptEntry<'a>>,
    pub(super) variables: Vec<VariableUse>,
    /// Layers without content, and the reasons.
    pub(super) absent: Vec<AbsentLayer>,
}

/// Fills the pack's layers for `tier`, in order. Layers without content have no entry.
///
/// Takes the context, the project and the instructions out of the request.
pub(super) fn fill_layers<'a>(
    pack: &'a Pack,
    inputs: PromptInputs<'a>,
    request: &mut PromptRequest,
    tier: Tier,
    delimiters: &Delimiters<'_>,
) -> Result<FilledLayers<'a>> {
    let facts = collect_facts(inputs, request, tier);
    let mut filler = LayerFiller {
        pack,
        inputs,
        tier,
        delimiters,
        facts,
        variables: Vec::new(),
        has_warned: false,
    };

    let mut context = std::mem::take(&mut request.context);
    let mut entries = Vec::new();
    let mut absent = Vec::new();
    let mut omit = |layer: &Layer, why: String| {
        absent.push(AbsentLayer {
            layer: layer.id.clone(),
            why,
        })
    };

    for layer in &pack.layers {
        if let Some(when) = layer
            .when
            .as_ref()
            .filter(|when| !when.holds(&filler.facts))
        {
            omit(layer, format!("condition not met: {}", when.text()));
            continue;
        }

        // Knowledge is only shown inside the state.
        let is_after_state = entries
            .last()
            .is_some_and(|last: &PromptEntry<'_>| last.layer().holds == LayerContent::State);
        if layer.holds == LayerContent::Knowledge && !is_after_state {
            continue;
        }

        if let Some(kind) = layer.holds.context_kind() {
            let (matching, rest) = context
                .into_iter()
                .partition(|sourced| sourced.item.kind() == kind);
            context = rest;
            entries.extend(filler.fill_context(layer, matching));
        } else {
            let filled = filler.fill_layer(layer, request)?;
            if filled.is_empty() {
                omit(layer, filler.explain_absence(layer));
            }
            entries.extend(filled);
        }
    }

    match context.first() {
        None => Ok(FilledLayers {
            entries,
            variables: filler.variables,
            absent,
        }),
        Some(unplaced) => Err(missing_layer_error(pack, unplaced)),
    }
}

/// Adds the shorter variants of every block, for a prompt that does not fit at its full length.
pub(super) fn add_shorter_variants<'a>(
    entries: &mut [PromptEntry<'a>],
    pack: &'a Pack,
    inputs: PromptInputs<'a>,
    request: &PromptRequest,
    tier: Tier,
    delimiters: &Delimiters<'_>,
) -> Result<()> {
    let facts = collect_facts(inputs, request, tier);
    let mut filler = LayerFiller {
        pack,
        inputs,
        tier,
        delimiters,
        facts,
        variables: Vec::new(),
        has_warned: true,
    };

    entries.iter_mut().try_for_each(|entry| match entry {
        PromptEntry::Block(block) => filler.add_shorter_variants(block, request),
        PromptEntry::Elastic(_) => Ok(()),
    })
}

/// Collects the facts that conditions of layers can use.
fn collect_facts(inputs: PromptInputs<'_>, request: &PromptRequest, tier: Tier) -> RuleFacts {
    let mut facts = RuleFacts::default();
    for (name, value) in &request.facts {
        facts = facts.with(name, FactValue::parse(value));
    }

    if let Some(mode) = inputs.mode {
        facts = facts.with("mode", mode.as_str());
    }

    if let Some(model) = &request.model {
        facts = facts
            .with("model", model.id.as_str())
            .with("xml_reliability", model.xml_reliability.name())
            .with("instruction_following", model.instruction_following.name());
    }

    if let Some(agent) = &request.agent {
        facts = facts.with("agent", agent.as_str());
    }

    if request.has_tools {
        facts = facts.with("tools", "on");
    }

    // Only the presence of a nonce is a fact: conditions must not depend on a value that differs in every turn.
    if request.nonce.is_some() {
        facts = facts.with("nonce", "on");
    }

    let reminder = if request.thinking_reminder {
        "on"
    } else {
        "off"
    };
    facts
        .with("tier", tier.name())
        .with("thinking_reminder", reminder)
}

struct LayerFiller<'a, 'f> {
    pack: &'a Pack,
    inputs: PromptInputs<'a>,
    tier: Tier,
    delimiters: &'f Delimiters<'f>,
    facts: RuleFacts,
    variables: Vec<VariableUse>,
    /// True if missing values were already logged.
    has_warned: bool,
}

impl<'a> LayerFiller<'a, '_> {
    fn fill_layer(
        &mut self,
        layer: &'a Layer,
        request: &mut PromptRequest,
    ) -> Result<Vec<PromptEntry<'a>>> {
        let to_entries =
            |block: Option<PromptBlock<'a>>| block.map(PromptEntry::Block).into_iter().collect();
        Ok(match layer.holds {
            LayerContent::Template => to_entries(self.fill_template(layer, request)?),
            LayerContent::Text => to_entries(self.fill_text(layer, request)?),
            LayerContent::State => to_entries(self.fill_state(layer)?),
            LayerContent::Project => {
                let project = request
                    .project
                    .take()
                    .filter(|(text, _)| !text.trim().is_empty());
                to_entries(project.map(|(text, source)| {
                    let text = self.escape_value(text.trim());
                    self.make_block(
                        layer,
                        PromptPart::System,
                        source,
                        vec![self.make_variant(text)],
                    )
                }))
            }
            LayerContent::Instructions => to_entries(self.fill_instructions(layer, request)?),
            LayerContent::Turn => self.fill_example_turn(layer, request)?,
            LayerContent::History => {
                let pack_limit = layer.items.map_or(usize::MAX, |items| items.at(self.tier));
                let limit = request.limits.turns.unwrap_or(pack_limit);
                self.make_elastic_entry(
                    layer,
                    SequenceItems::Turns {
                        turns: self.inputs.history,
                        start: self.inputs.history_start,
                        limit,
                    },
                )
            }
            LayerContent::Knowledge => match (self.inputs.mode, self.knowledge_name()) {
                (Some(mode), Some(name)) => {
                    let section = KnowledgeSection {
                        name,
                        visibility: self.pack.visibility(mode),
                    };
                    let items = SequenceItems::Entries {
                        entries: self.inputs.knowledge,
                        limits: request.limits,
                        section,
                    };
                    self.make_elastic_entry(layer, items)
                }
                _ => Vec::new(),
            },
            LayerContent::Artifacts | LayerContent::Files | LayerContent::Thoughts => Vec::new(),
        })
    }

    /// Returns the name of the section that holds the knowledge.
    fn knowledge_name(&self) -> Option<&'a str> {
        let pack: &'a Pack = self.pack;
        let (name, _) = pack.state.section_holding(SectionSource::Knowledge)?;
        Some(name)
    }

    /// Returns the reason why a layer has no content.
    fn explain_absence(&self, layer: &Layer) -> String {
        if layer.none_at.is_some_and(|none| self.tier <= none) {
            return format!("empty at the {} tier", self.tier.name());
        }

        if layer
            .choose
            .iter()
            .any(|choice| choice.value.when.holds(&self.facts))
            || layer.choose.is_empty()
        {
            return "no content".to_owned();
        }

        // No warning if all conditions depend on unknown facts: then the request does not use this layer.
        let condition_facts = layer
            .choose
            .iter()
            .filter_map(|choice| choice.value.when.names());
        if condition_facts
            .flatten()
            .any(|name| self.facts.text(name).is_some())
        {
            log::warn!(
                "omitting layer `{}`: none of its conditions is met",
                layer.id
            );
        }

        "none of its conditions is met".to_owned()
    }

    fn fill_template(
        &mut self,
        layer: &'a Layer,
        request: &PromptRequest,
    ) -> Result<Option<PromptBlock<'a>>> {
        let (Some(found), Some(mode)) = (&request.template, self.inputs.mode) else {
            let message = format!(
                "layer `{}` needs a template, but the request has none",
                layer.id
            );
            return Err(Error::new(ErrorKind::TemplateNotFound, message)
                .with_hint("set `PromptRequest::template` to the result of `Templates::find`"));
        };

        let text = &found.template.text;
        if found.template.mode != *mode {
            let message = format!("`{}` is not a template of mode `{mode}`", text.name);
            return Err(Error::new(ErrorKind::TemplateInvalid, message));
        }

        let filled = self.fill_placeholders(text, request, &[], self.tier)?;
        if filled.trim().is_empty() {
            return Ok(None);
        }

        let source = text.origin.clone();
        let variants = vec![self.make_variant(filled)];
        Ok(Some(self.make_block(
            layer,
            PromptPart::System,
            source,
            variants,
        )))
    }

    /// Fills the instructions: the text of the request, followed by the pack's prose for the mode.
    fn fill_instructions(
        &mut self,
        layer: &'a Layer,
        request: &mut PromptRequest,
    ) -> Result<Option<PromptBlock<'a>>> {
        let Some(instructions) = request.instructions.take() else {
            return Ok(None);
        };
        let mut text = replace_forbidden(&instructions).into_owned();

        for added in self.added_texts(layer, self.tier) {
            let added = self.fill_placeholders(added, request, &[], self.tier)?;
            text.truncate(text.trim_end().len());
            text.push_str("\n\n");
            text.push_str(added.trim());
        }

        let source = "the request".to_owned();
        Ok(Some(self.make_block(
            layer,
            PromptPart::Instructions,
            source,
            vec![self.make_variant(text)],
        )))
    }

    /// Returns the prose files that a layer adds in the current mode.
    fn added_texts(&self, layer: &Layer, tier: Tier) -> Vec<&'a ProseText> {
        let Some(mode) = self.inputs.mode else {
            return Vec::new();
        };
        let files = layer.adds.get(mode).map_or(&[][..], Vec::as_slice);
        files
            .iter()
            .filter_map(|file| self.pack.text(&file_for(&file.value, mode), tier))
            .collect()
    }

    /// Fills a layer of prose.
    fn fill_text(
        &mut self,
        layer: &'a Layer,
        request: &PromptRequest,
    ) -> Result<Option<PromptBlock<'a>>> {
        let Some((text, origin)) = self.compose_prose(layer, request, self.tier)? else {
            return Ok(None);
        };
        // A layer that is empty at this tier is also empty at smaller tiers.
        let has_text = !text.is_empty();
        let variant = BlockVariant {
            tier: self.tier,
            text,
            end: String::new(),
            origin: Some(origin),
        };

        Ok(has_text
            .then(|| self.make_block(layer, PromptPart::System, origin.to_owned(), vec![variant])))
    }

    /// Returns the text of a prose layer at a tier and its origin; `None` if no file is chosen.
    fn compose_prose(
        &mut self,
        layer: &'a Layer,
        request: &PromptRequest,
        tier: Tier,
    ) -> Result<Option<(Cow<'a, str>, &'a str)>> {
        let Some((file, choice_values)) = self.choose_file(layer, request) else {
            return Ok(None);
        };
        let pack = self.pack;
        let main = pack
            .text(&file, tier)
            .filter(|_| layer.none_at.is_none_or(|none| tier > none));
        let Some(main) = main else {
            return Ok(Some((Cow::Borrowed(""), "")));
        };
        let texts: Vec<&'a ProseText> = std::iter::once(main)
            .chain(self.added_texts(layer, tier))
            .collect();

        let mut composed: Option<Cow<'a, str>> = None;
        for text in texts {
            let filled = if text.is_plain() {
                vars::with_nonce(text.body().trim(), request.nonce.as_ref())
            } else {
                Cow::Owned(
                    self.fill_placeholders(text, request, &choice_values, tier)?
                        .trim()
                        .to_owned(),
                )
            };

            composed = Some(match composed {
                None => filled,
                Some(before) => Cow::Owned([&before, "\n\n", &*filled].concat()),
            });
        }

        Ok(composed.map(|composed| (composed, main.origin.as_str())))
    }

    /// Returns the file of a prose layer and the variables that its entry in `choose` sets.
    fn choose_file(
        &self,
        layer: &'a Layer,
        request: &PromptRequest,
    ) -> Option<(String, Vec<(&'a str, String)>)> {
        let mode = self.inputs.mode;
        let resolve_file = |name: &str| match mode {
            Some(mode) => Some(file_for(name, mode)),
            None => (!name.contains("{mode}")).then(|| name.to_owned()),
        };
        if let Some(text) = &layer.text {
            return Some((resolve_file(&text.value)?, Vec::new()));
        }

        let choice = layer
            .choose
            .iter()
            .find(|choice| choice.value.when.holds(&self.facts))?;
        let choice = &choice.value;
        let values = choice
            .values
            .iter()
            .filter_map(|(name, fact)| Some((name.as_str(), self.facts.text(fact)?)));
        let defaults = choice
            .defaults
            .iter()
            .filter(|_| request.missing != MissingVariable::Error)
            .filter(|(name, _)| !request.variables.contains_key(*name))
            .map(|(name, text)| (name.as_str(), text.clone()));

        Some((
            resolve_file(&choice.text)?,
            values.chain(defaults).collect(),
        ))
    }

    fn fill_placeholders(
        &mut self,
        text: &ProseText,
        request: &PromptRequest,
        text_values: &[(&str, String)],
        tier: Tier,
    ) -> Result<String> {
        let actions = self
            .inputs
            .mode
            .map_or("", |mode| self.pack.action_list(mode, tier));
        let values = PlaceholderValues {
            request_values: &request.variables,
            text_values,
            pack_texts: &request.pack_texts,
            actions,
            nonce: request.nonce.as_ref(),
        };

        let (filled, uses) = vars::fill_placeholders(text, values, request.missing, &|value| {
            self.escape_value(value)
        })?;
        for used in uses {
            if self.variables.iter().all(|listed| listed.name != used.name) {
                if !self.has_warned
                    && used.required
                    && used.bytes.is_none()
                    && request.missing == MissingVariable::Notice
                {
                    vars::warn_missing(&used.name);
                }
                self.variables.push(used);
            }
        }

        Ok(filled)
    }

    /// Escapes a value so that it cannot imitate delimiters. XML needs no escaping here: the whole element is escaped.
    fn escape_value(&self, value: &str) -> String {
        match self.delimiters.format {
            Format::Xml => value.to_owned(),
            _ => self.delimiters.escape_block(value).into_owned(),
        }
    }

    fn fill_state(&self, layer: &'a Layer) -> Result<Option<PromptBlock<'a>>> {
        let variant = self.state_variant(self.tier)?;
        Ok(variant.map(|variant| {
            self.make_block(
                layer,
                PromptPart::System,
                "the session".to_owned(),
                vec![variant],
            )
        }))
    }

    fn state_variant(&self, tier: Tier) -> Result<Option<BlockVariant<'a>>> {
        let Some(mode) = self.inputs.mode else {
            return Ok(None);
        };
        self.pack.mode(mode)?;
        let inputs = self.inputs;
        let xml = state_xml(
            self.pack,
            mode,
            inputs.document,
            inputs.risks,
            inputs.results,
            tier,
            self.delimiters,
        );

        Ok(Some(BlockVariant {
            tier,
            text: Cow::Owned(xml.head),
            end: xml.tail,
            origin: None,
        }))
    }

    /// Inserts the shorter variants of a block before its longest variant.
    fn add_shorter_variants(
        &mut self,
        block: &mut PromptBlock<'a>,
        request: &PromptRequest,
    ) -> Result<()> {
        if block.layer.class == RetentionClass::Pinned
            || !matches!(block.layer.holds, LayerContent::Text | LayerContent::State)
        {
            return Ok(());
        }

        let longest = block.variants.pop();
        let longest_tier = self.tier;
        for tier in Tier::ALL
            .into_iter()
            .rev()
            .filter(|tier| *tier < longest_tier)
        {
            let variant = match block.layer.holds {
                LayerContent::State => self.state_variant(tier)?,
                _ => self
                    .compose_prose(block.layer, request, tier)?
                    .map(|(text, origin)| BlockVariant {
                        tier,
                        text,
                        end: String::new(),
                        origin: Some(origin),
                    }),
            };
            block.add_variant(variant);
        }

        block.add_variant(longest);
        Ok(())
    }

    /// Fills an example turn, marked as such in every format: flat text has a heading over it, XML has the heading in the
    /// first message, and a chat shows the turn as part of the system prompt, because messages have no heading.
    fn fill_example_turn(
        &mut self,
        layer: &'a Layer,
        request: &PromptRequest,
    ) -> Result<Vec<PromptEntry<'a>>> {
        let tier = self.tier;
        let pack = self.pack;
        let Some(mode) = self
            .inputs
            .mode
            .filter(|_| layer.none_at.is_none_or(|none| tier > none))
        else {
            return Ok(Vec::new());
        };

        let mut blocks = Vec::new();
        for (role, file) in [
            (MessageRole::User, &layer.user),
            (MessageRole::Assistant, &layer.assistant),
        ] {
            let text = file
                .as_ref()
                .and_then(|file| pack.text(&file_for(&file.value, mode), tier));
            let Some(text) = text else { continue };
            let filled = self
                .fill_placeholders(text, request, &[], tier)?
                .trim()
                .to_owned();
            let (part, shown) = mark_example(self.delimiters, layer, role, filled);
            let variants = vec![self.make_variant(shown)];
            let block = self.make_block(layer, part, text.origin.clone(), variants);
            blocks.push(PromptEntry::Block(PromptBlock {
                id: format!("{}/{}", layer.id, role.name()),
                is_continuation: role == MessageRole::Assistant,
                ..block
            }));
        }

        Ok(blocks)
    }

    fn fill_context(&self, layer: &'a Layer, items: Vec<SourcedItem>) -> Vec<PromptEntry<'a>> {
        if layer.class == RetentionClass::Elastic {
            let limit = layer.items.map_or(usize::MAX, |items| items.at(self.tier));
            let mut block_ids = BlockIds::default();
            let ids = items
                .iter()
                .map(|sourced| block_ids.next_id(layer, sourced.item.name()))
                .collect();
            return self.make_elastic_entry(layer, SequenceItems::Context { items, ids, limit });
        }

        let mut ids = BlockIds::default();
        let blocks = items.into_iter().enumerate().map(
            |(
                index,
                SourcedItem {
                    item,
                    source,
                    own,
                    named,
                },
            )| {
                let kind = item.kind();
                let (name, content) = item.into_name_and_content();
                let id = ids.next_id(layer, &name);
                let block = self.make_block(
                    layer,
                    PromptPart::Context { kind, name },
                    source,
                    vec![self.make_variant(content)],
                );
                PromptEntry::Block(PromptBlock {
                    id,
                    is_continuation: index > 0,
                    is_pack_text: own,
                    is_named: named,
                    ..block
                })
            },
        );

        blocks.collect()
    }

    fn make_elastic_entry(
        &self,
        layer: &'a Layer,
        items: SequenceItems<'a>,
    ) -> Vec<PromptEntry<'a>> {
        let floor = layer.floor.map_or(0, |floor| floor.at(self.tier));
        let cap = layer.cap.map_or(u64::MAX, |cap| cap.at(self.tier));
        let elastic = ElasticSequence {
            layer,
            floor: floor.min(cap),
            cap,
            items,
        };

        if elastic.len() == 0 {
            Vec::new()
        } else {
            vec![PromptEntry::Elastic(elastic)]
        }
    }

    fn make_block(
        &self,
        layer: &'a Layer,
        part: PromptPart,
        source: String,
        variants: Vec<BlockVariant<'a>>,
    ) -> PromptBlock<'a> {
        PromptBlock {
            id: layer.id.clone(),
            part,
            layer,
            source,
            variants,
            is_continuation: false,
            is_pack_text: false,
            is_named: false,
        }
    }

    fn make_variant(&self, text: String) -> BlockVariant<'a> {
        BlockVariant {
            tier: self.tier,
            text: Cow::Owned(text),
            end: String::new(),
            origin: None,
        }
    }
}

/// Returns the text of one prose layer for a request; `None` if the layer is unknown or has no text.
pub(super) fn fill_layer_text(
    pack: &Pack,
    layer: &str,
    request: &PromptRequest,
) -> Result<Option<String>> {
    let Some(layer) = pack.layers.iter().find(|candidate| candidate.id == layer) else {
        return Ok(None);
    };
    let document = StateDocument::default();
    let inputs = PromptInputs {
        mode: None,
        document: &document,
        results: &[],
        knowledge: &[],
        history: &[],
        history_start: 0,
        risks: &[],
    };

    let facts = collect_facts(inputs, request, Tier::Full);
    let delimiters = Delimiters::from_pack(pack, Format::Flat, None, &[]);
    let mut filler = LayerFiller {
        pack,
        inputs,
        tier: Tier::Full,
        delimiters: &delimiters,
        facts,
        variables: Vec::new(),
        has_warned: false,
    };

    Ok(filler
        .compose_prose(layer, request, Tier::Full)?
        .map(|(text, _)| text.into_owned()))
}

/// Returns the body of a prose file with its placeholders filled.
pub(super) fn render_text(
    pack: &Pack,
    text: &ProseText,
    variables: &Variables,
    missing: MissingVariable,
) -> Result<String> {
    let delimiters = Delimiters::from_pack(pack, Format::Flat, None, &[]);
    let escape = |value: &str| delimiters.escape_block(value).into_owned();
    let values = PlaceholderValues {
        request_values: variables,
        text_values: &[],
        pack_texts: &Variables::new(),
        actions: "",
        nonce: None,
    };
    Ok(vars::fill_placeholders(text, values, missing, &escape)?.0)
}
