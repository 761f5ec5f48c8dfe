//! The conversation of a session: each prompt shows the earlier turns, read from the ledger.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use agentd::agent::{FnDriver, this_process};
use agentd::models::{
    BlobId, BudgetUsage, CallOutcome, ConversationTurn, Event, HeldSession, LeaseHolder,
    Measurement, Mode, Reply, SessionId, StateDocument, TurnRow, UsageRow,
};
use agentd::orchestrator::{TurnRequest, Workspace, WorkspaceOptions, assemble, next_state};
use agentd::store::{
    BudgetScope, ClaimResult, Lease, LedgerEntry, LedgerMarks, MeasurementQuery, MemoryStore,
    Store, TurnQuery, blob_id,
};

use crate::support::{TestProject, events, take};

fn foreman(project: &TestProject) -> Workspace {
    let options = WorkspaceOptions::default().with_pack("foreman");
    Workspace::open(project.root(), options).unwrap()
}

fn session() -> SessionId {
    SessionId::new("novel").unwrap()
}

fn say(message: &str) -> TurnRequest {
    TurnRequest {
        session: Some(session()),
        ..TurnRequest::new(Mode::new("architect").unwrap(), message)
    }
}

/// Takes a turn with an agent that gives this reply, and returns the prompt that it got.
fn turn(workspace: &Workspace, store: &dyn Store, message: &str, reply: &str) -> String {
    let prompt = Mutex::new(String::new());
    let driver = FnDriver::new(|call| {
        call.prompt.clone_into(&mut prompt.lock().unwrap());
        Ok(Reply::from_text(reply))
    });
    take(workspace, store, &driver, &say(message)).unwrap();
    prompt.into_inner().unwrap()
}

fn history_of(prompt: &str) -> &str {
    let (_, history) = prompt.split_once("## CONVERSATION HISTORY").unwrap();
    history.split_once("## CURRENT MESSAGE").unwrap().0
}

const FIRST_REPLY: &str = "<thinking>\nShe hides something.\n</thinking>\n\nWhat does Mara fear?\n\n\
<action type=\"save_decision\">\ncategory: character\nkey: mara_fear\nvalue: Being left\n</action>";

#[test]
fn prompt_shows_the_message_and_the_whole_reply_of_the_turn_before() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = MemoryStore::default();

    let first = turn(&workspace, &store, "My hero is Mara.", FIRST_REPLY);
    assert!(!first.contains("## CONVERSATION HISTORY"), "{first}");

    let second = turn(&workspace, &store, "Being left.", "Noted.");
    assert_eq!(
        history_of(&second),
        format!("\n\nUSER: My hero is Mara.\n\nASSISTANT: {FIRST_REPLY}\n\n---\n\n")
    );

    // The oldest turn is the first.
    let third = turn(&workspace, &store, "And then?", "Go on.");
    let history = history_of(&third);
    let places: Vec<_> = ["My hero is Mara.", "Being left.", "Noted."]
        .map(|text| history.find(text).unwrap())
        .into();
    assert!(places.is_sorted(), "{history}");
    assert!(!history.contains("And then?"));
}

#[test]
fn preview_shows_the_same_conversation_as_the_turn() {
    let project = TestProject::new();
    project.disable_nonce();
    let workspace = foreman(&project);
    let store = MemoryStore::default();
    turn(&workspace, &store, "My hero is Mara.", FIRST_REPLY);

    let state = next_state(&workspace, Some(&store), &say("Being left.")).unwrap();
    let preview = assemble(&workspace, &state, &say("Being left.")).unwrap();
    let sent = turn(&workspace, &store, "Being left.", "Noted.");
    assert_eq!(history_of(&preview.draft.rendered()), history_of(&sent));
}

#[test]
fn failed_turn_is_not_part_of_the_conversation() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = MemoryStore::default();
    turn(&workspace, &store, "My hero is Mara.", "Who is Mara?");

    let failing = FnDriver::new(|_| {
        Ok(Reply {
            end: CallOutcome::Refused,
            ..Reply::from_text("Half an ans")
        })
    });
    let report = take(&workspace, &store, &failing, &say("A thief.")).unwrap();
    assert!(report.fault.is_some());

    let prompt = turn(&workspace, &store, "A thief, I said.", "Noted.");
    let history = history_of(&prompt);
    assert!(history.contains("Who is Mara?"), "{history}");
    assert!(!history.contains("A thief."), "{history}");
    assert!(!history.contains("Half an ans"), "{history}");
}

#[test]
fn state_file_with_a_history_replaces_the_conversation() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = MemoryStore::default();
    turn(&workspace, &store, "My hero is Mara.", "Who is Mara?");

    let given = ConversationTurn {
        user: "From the file.".to_owned(),
        assistant: "Read.".to_owned(),
    };
    let request = TurnRequest {
        work: Some(StateDocument {
            history: vec![given],
            ..StateDocument::default()
        }),
        ..say("Next")
    };
    let state = next_state(&workspace, Some(&store), &request).unwrap();
    let prompt = assemble(&workspace, &state, &request).unwrap();
    let prompt = prompt.draft.rendered();
    let history = history_of(&prompt);
    assert!(history.contains("From the file."), "{history}");
    assert!(!history.contains("Mara"), "{history}");
}

#[test]
fn pack_without_a_history_keeps_no_messages() {
    let project = TestProject::new();
    let workspace = Workspace::open(project.root(), WorkspaceOptions::default()).unwrap();
    let store = MemoryStore::default();
    let driver = FnDriver::new(|_| Ok(Reply::from_text("Planned.")));
    let request = TurnRequest {
        session: Some(session()),
        ..TurnRequest::new(Mode::new("plan").unwrap(), "Add login")
    };
    take(&workspace, &store, &driver, &request).unwrap();

    let state = next_state(&workspace, Some(&store), &request).unwrap();
    assert_eq!(state.document.history, []);
    let kept = events(&store, "novel")
        .into_iter()
        .find_map(|event| match event {
            Event::Started(started) => Some(started.message),
            _ => None,
        });
    assert_eq!(kept, Some(None));
}

/// The foreman shows ten turns and cuts to 85 % of them: 0 stays the first turn of ten prompts, then 3 of three.
#[test]
fn start_of_the_conversation_is_stable_for_some_turns() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = MemoryStore::default();
    for number in 0..15 {
        turn(&workspace, &store, &format!("q{number}"), "Yes.");
    }

    let first: Vec<_> = events(&store, "novel")
        .into_iter()
        .filter_map(|event| match event {
            Event::Started(started) => Some(started.first_turn),
            _ => None,
        })
        .collect();
    let zeros = [Some(0); 10];
    let later = [Some(3), Some(3), Some(3), Some(6)];
    assert_eq!(first, [&[None], &zeros[..], &later].concat());
}

#[test]
fn segments_are_numbered_by_turn() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = MemoryStore::default();
    for number in 0..14 {
        turn(&workspace, &store, &format!("q{number}"), "Yes.");
    }

    let state = next_state(&workspace, Some(&store), &say("Next")).unwrap();
    assert_eq!(state.document.history_start, 4);
    let assembly = assemble(&workspace, &state, &say("Next")).unwrap();
    let report = &assembly.draft.fit_report;
    assert_eq!(report.first_turn, Some(6));
    let row = report.blocks.iter().find(|row| row.block == "history");
    let row = row.unwrap();
    assert_eq!((row.kept, row.of), (8, 14));

    let segments = &assembly.draft.segments;
    let first = segments.iter().find(|segment| segment.text.contains("q6"));
    assert_eq!(first.unwrap().block, "history/7/user");
}

#[test]
fn only_the_turns_that_a_prompt_can_show_are_read() {
    let project = TestProject::new();
    let workspace = foreman(&project);
    let store = CountingStore::default();
    turn(&workspace, &store, "q0", "Yes.");
    repeat_turn(&store.inner, 10_000);

    store.texts.store(0, Ordering::SeqCst);
    let state = next_state(&workspace, Some(&store), &say("Next")).unwrap();
    let history = &state.document.history;
    assert_eq!(history.len(), 10);
    assert_eq!(history[9].user, "q9999");
    assert_eq!(history[0].user, "q9990");
    assert_eq!(state.document.history_start, 9_990);
    assert_eq!(
        store.texts.load(Ordering::SeqCst),
        20,
        "a message and a reply of ten turns"
    );
}

/// Records the turn of a session again with other messages, until there are `total` turns.
fn repeat_turn(store: &dyn Store, total: u64) {
    let recorded = events(store, "novel");
    let start = recorded
        .iter()
        .position(|event| matches!(event, Event::Started(_)))
        .unwrap();
    let holder = LeaseHolder {
        name: "test".to_owned(),
        process: this_process(),
    };
    let now = SystemTime::now();
    let ClaimResult::Granted(lease) = store.claim(&session(), &holder, None, now).unwrap() else {
        panic!("the session is busy");
    };
    for number in 1..total {
        let message = format!("q{number}");
        let events: Vec<Event> = recorded[start..]
            .iter()
            .filter_map(|event| renumbered(event, number + 1, blob_id(message.as_bytes())))
            .collect();
        let entry = LedgerEntry {
            events: &events,
            blobs: &[message.as_bytes()],
            ..LedgerEntry::default()
        };
        store.commit(&lease, &entry, now).unwrap();
    }
    store.release(&lease).unwrap();
}

/// Returns an event of a turn as an event of another turn.
fn renumbered(event: &Event, number: u64, text: BlobId) -> Option<Event> {
    let mut event = event.clone();
    match &mut event {
        Event::Started(started) => {
            started.turn = number;
            started.message = Some(text);
        }
        Event::Answered(answered) => answered.turn = number,
        Event::Called { turn, .. }
        | Event::Launched { turn, .. }
        | Event::Replied { turn, .. }
        | Event::Intended { turn, .. }
        | Event::Settled { turn, .. } => *turn = number,
        _ => return None,
    }
    Some(event)
}

/// A ledger in memory that counts the texts that are read.
#[derive(Default)]
struct CountingStore {
    inner: MemoryStore,
    texts: AtomicUsize,
}

impl Store for CountingStore {
    fn claim(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        over: Option<u64>,
        now: SystemTime,
    ) -> agentd::Result<ClaimResult> {
        self.inner.claim(session, holder, over, now)
    }

    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> agentd::Result<()> {
        self.inner.heartbeat(lease, now)
    }

    fn release(&self, lease: &Lease) -> agentd::Result<()> {
        self.inner.release(lease)
    }

    fn commit(
        &self,
        lease: &Lease,
        entry: &LedgerEntry<'_>,
        now: SystemTime,
    ) -> agentd::Result<()> {
        self.inner.commit(lease, entry, now)
    }

    fn marks(&self) -> agentd::Result<LedgerMarks> {
        self.inner.marks()
    }

    fn check_unchanged(&self, lease: &Lease, marks: &LedgerMarks) -> agentd::Result<()> {
        self.inner.check_unchanged(lease, marks)
    }

    fn events(&self, session: &SessionId) -> agentd::Result<Vec<(SystemTime, Event)>> {
        self.inner.events(session)
    }

    fn blob(&self, id: &BlobId) -> agentd::Result<Option<Vec<u8>>> {
        self.texts.fetch_add(1, Ordering::SeqCst);
        self.inner.blob(id)
    }

    fn turns(&self, wanted: &TurnQuery<'_>) -> agentd::Result<Vec<TurnRow>> {
        self.inner.turns(wanted)
    }

    fn sessions(&self) -> agentd::Result<Vec<SessionId>> {
        self.inner.sessions()
    }

    fn held(&self) -> agentd::Result<Vec<HeldSession>> {
        self.inner.held()
    }

    fn spent(&self, scope: &BudgetScope<'_>) -> agentd::Result<BudgetUsage> {
        self.inner.spent(scope)
    }

    fn usage(&self, session: Option<&SessionId>) -> agentd::Result<Vec<UsageRow>> {
        self.inner.usage(session)
    }

    fn measure(&self, measurement: &Measurement, now: SystemTime) -> agentd::Result<()> {
        self.inner.measure(measurement, now)
    }

    fn measurements(
        &self,
        wanted: &MeasurementQuery<'_>,
    ) -> agentd::Result<Vec<(SystemTime, Measurement)>> {
        self.inner.measurements(wanted)
    }
}
