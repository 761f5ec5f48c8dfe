//! The foreman pack, its states and its prompts, for the tests of the Context Sandwich.

use agentd::Pack;
use agentd::compose::{AssemblyConfig, PromptAssembler};
use agentd::models::{
    Catalogue, ConversationTurn, KnowledgeEntry, Mode, ModelSpec, Reliability, StateDocument, Tier,
};
use roxmltree::{Document, Node};

use crate::support::{repository, shipped_pack};

pub(crate) const MODES: [&str; 4] = ["architect", "voice_calibration", "director", "editor"];

/// Actions with valid parameters, and the modes of the table in 8.1 that permit them.
pub(crate) const ACTIONS: [(&str, &str, [bool; 4]); 11] = [
    (
        "query_notebook",
        "<notebook_id>n</notebook_id><query>q</query>",
        [true, true, true, true],
    ),
    (
        "save_decision",
        "<category>world</category><key>moons</key><value>two moons</value>",
        [true, true, true, true],
    ),
    (
        "write_template",
        "<template>theme</template><content><central_theme>Trust</central_theme></content>",
        [true, false, false, false],
    ),
    (
        "update_status",
        "<template>theme</template><status>in_progress</status>",
        [true, true, false, false],
    ),
    (
        "start_tournament",
        "<passage>She waits.</passage>",
        [false, true, false, false],
    ),
    (
        "select_winner",
        "<tournament_id>t</tournament_id><variant_id>a</variant_id><reason>r</reason>",
        [false, true, false, false],
    ),
    (
        "generate_bundle",
        "<tournament_id>t</tournament_id>",
        [false, true, false, false],
    ),
    (
        "generate_scaffold",
        "<chapter>1</chapter><scene>2</scene><title>The bell</title>",
        [false, false, true, false],
    ),
    (
        "write_scene",
        "<scaffold_id>s</scaffold_id><target>scene_1</target>",
        [false, false, true, false],
    ),
    (
        "run_health_check",
        "<scope>scene</scope>",
        [false, false, true, true],
    ),
    (
        "apply_edit",
        "<target>scene_1</target><original>a</original><replacement>b</replacement>",
        [false, false, false, true],
    ),
];

/// A real model of each tier, the largest first.
pub(crate) const MODEL_OF_TIER: [&str; 3] = ["gpt-4o", "deepseek-chat", "llama3.2:3b"];

pub(crate) fn file(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// Returns the state of a case under `tests/data/state`.
pub(crate) fn work(name: &str) -> StateDocument {
    read_state(&file(&format!("tests/data/state/{name}.yaml"))).unwrap()
}

/// Reads a state file of the foreman pack.
pub(crate) fn read_state(text: &str) -> agentd::Result<StateDocument> {
    StateDocument::read(text, "state", &pack().state)
}

pub(crate) fn pack() -> Pack {
    shipped_pack("foreman")
}

pub(crate) fn config(model: &str, mode: &str) -> AssemblyConfig {
    AssemblyConfig::new(model, Mode::new(mode).unwrap())
}

pub(crate) fn assembler(work: &StateDocument) -> PromptAssembler {
    PromptAssembler::new(pack(), work.knowledge.clone()).unwrap()
}

/// Returns the prompt of a state for a model in a mode.
pub(crate) fn prompt(model: &str, mode: &str, work: &StateDocument) -> String {
    assembler(work)
        .assemble(&config(model, mode), work, &work.history, "Go on.", None)
        .unwrap()
}

/// Returns the only session state of a prompt.
pub(crate) fn state_of(prompt: &str) -> &str {
    assert_eq!(prompt.matches("<session_state>").count(), 1, "{prompt}");
    assert_eq!(prompt.matches("</session_state>").count(), 1, "{prompt}");
    let (start, end) = (
        prompt.find("<session_state>").unwrap(),
        prompt.find("</session_state>").unwrap(),
    );
    &prompt[start..end + "</session_state>".len()]
}

pub(crate) fn parsed(xml: &str) -> Document<'_> {
    Document::parse(xml).unwrap_or_else(|error| panic!("{error}:\n{xml}"))
}

pub(crate) fn children<'a, 'i>(node: Node<'a, 'i>) -> Vec<Node<'a, 'i>> {
    node.children().filter(Node::is_element).collect()
}

pub(crate) fn names(node: Node<'_, '_>) -> Vec<String> {
    children(node)
        .iter()
        .map(|child| child.tag_name().name().to_owned())
        .collect()
}

/// Returns the names of the elements of a session state, after the mode and the percentage that all
/// have.
pub(crate) fn sections(xml: &str) -> Vec<String> {
    let document = parsed(xml);
    let names = names(document.root_element());
    assert_eq!(names[..2], ["current_mode", "completion_pct"]);
    names[2..].to_vec()
}

pub(crate) fn entry(category: &str, key: &str, value: &str) -> KnowledgeEntry {
    KnowledgeEntry {
        category: category.into(),
        key: key.into(),
        value: value.into(),
        source: None,
    }
}

pub(crate) fn turns(count: usize, words: usize) -> Vec<ConversationTurn> {
    let turn = |n| ConversationTurn {
        user: format!("question {n}."),
        assistant: format!("<message>answer {n}.{}</message>", " so".repeat(words)),
    };
    (1..=count).map(turn).collect()
}

/// Returns the numbers of the turns that a prompt shows, in its order.
pub(crate) fn turns_shown(prompt: &str) -> Vec<usize> {
    let lines = prompt
        .lines()
        .filter_map(|line| line.strip_prefix("USER: question ")?.strip_suffix('.'));
    lines.map(|number| number.parse().unwrap()).collect()
}

/// The shipped catalogue, with a model called `mine` whose tokens are counted exactly.
pub(crate) fn catalogue_with_mine(window: u64, tier: Tier, reliability: Reliability) -> Catalogue {
    let mut catalogue = Catalogue::built_in().unwrap().clone();
    let model = ModelSpec {
        id: "mine".into(),
        window,
        tier,
        xml_reliability: reliability,
        ..catalogue.find("gpt-4o").unwrap().clone()
    };
    catalogue.add(model).unwrap();
    catalogue
}

pub(crate) fn o200k(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Returns the lines that open a layer, in order.
pub(crate) fn layer_openers(prompt: &str) -> Vec<&str> {
    const OPENERS: [&str; 7] = [
        "# THE FOREMAN",
        "# THE WRITING PROCESS MAP",
        "<session_state>",
        "# OUTPUT PROTOCOLS",
        "## EXAMPLE TURN",
        "## CONVERSATION HISTORY",
        "## CURRENT MESSAGE",
    ];
    prompt
        .lines()
        .filter(|line| OPENERS.contains(line) || line.starts_with("# MODE: "))
        .collect()
}
