//! Universal Agent Instruction Architecture, section 10.1: the assembler and its knowledge base.

use std::sync::{Arc, Mutex};

use agentd::ErrorKind;
use agentd::compose::{KnowledgeSource, PromptAssembler, WorkOrder};
use agentd::models::KnowledgeEntry;

use crate::support::foreman_pack::{config, entry, pack};

/// A knowledge base that records its queries, has another entry for each, and fails at the third.
#[derive(Clone, Default)]
struct RecordingSource {
    queries: Arc<Mutex<Vec<(String, usize)>>>,
}

impl KnowledgeSource for RecordingSource {
    fn context_for(&self, project: &str, limit: usize) -> agentd::Result<Vec<KnowledgeEntry>> {
        let mut queries = self.queries.lock().unwrap();
        queries.push((project.to_owned(), limit));
        match queries.len() {
            1 => Ok(vec![entry("world", "moons", "two")]),
            2 => Ok(vec![entry("world", "moons", "three")]),
            _ => Err(agentd::Error::new(
                ErrorKind::LedgerUnusable,
                "it is closed",
            )),
        }
    }
}

/// 10.1: the knowledge base is asked for every prompt, with the project and the number of entries.
#[test]
fn section_10_1_knowledge_is_asked_for_every_prompt() {
    let source = RecordingSource::default();
    let assembler = PromptAssembler::new(pack(), source.clone()).unwrap();
    let config = config("gpt-4o", "architect");
    let assemble = |title: &str| {
        let order = WorkOrder {
            project_title: title.to_owned(),
            ..WorkOrder::default()
        };
        assembler.assemble(&config, &order.into(), &[], "Next?", None)
    };
    let first = assemble("Glass").unwrap();
    assert!(first.contains("\n      two\n"), "{first}");
    let second = assemble("Stone").unwrap();
    assert!(second.contains("\n      three\n"), "{second}");
    let error = assemble("Stone").unwrap_err();
    assert_eq!(error.message(), "it is closed");

    let queries = source.queries.lock().unwrap();
    let expected = [("Glass", 10), ("Stone", 10), ("Stone", 10)];
    assert_eq!(
        *queries,
        expected.map(|(project, limit)| (project.to_owned(), limit))
    );
}
