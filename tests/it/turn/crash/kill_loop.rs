//! Kills at random moments: turn after turn is killed at a random step, recovered and checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentd::fail::POINTS;
use agentd::models::{CallOutcome, Event};

use super::{Stage, TURN, answers, until};
use crate::support::{repository, write};

/// Number of turns killed unless `AGENTD_SOAK` sets another.
const KILLS: usize = 50;

/// Number of killed turns per project.
const PER_PROJECT: usize = 25;

/// Number of projects that run concurrently.
const WORKERS: usize = 2;

/// Latest moment of a kill, in milliseconds after its step was reached.
const MAX_KILL_DELAY_MILLISECONDS: u64 = 60;

/// Pseudo-random numbers, the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Statistics of the kills.
#[derive(Default)]
struct Figures {
    /// Number of times each step was chosen, and number of kills during it.
    steps: BTreeMap<String, (usize, usize)>,
    calls: usize,
    recorded: usize,
    salvaged: usize,
    lost: usize,
    turns: u64,
}

impl Figures {
    fn table(&self, seed: u64, kills: usize, took: Duration) -> String {
        let mut table = format!("{kills} kills, seed {seed}, {} s\n\n", took.as_secs());
        let _ = writeln!(table, "{:<12} {:>6} {:>6}", "step", "chosen", "hit");
        for point in POINTS {
            let (chosen, hit) = self.steps.get(point).copied().unwrap_or_default();
            let _ = writeln!(table, "{point:<12} {chosen:>6} {hit:>6}");
        }

        let Self {
            calls,
            recorded,
            salvaged,
            lost,
            turns,
            ..
        } = self;
        let _ = writeln!(
            table,
            "\n{turns} turns, {calls} calls made, {recorded} recorded, {salvaged} replies salvaged, {lost} calls lost"
        );
        table
    }
}

/// Kills a turn at a step, and returns the step in which it was; `None` if it finished before.
fn kill_at(stage: &Stage, chance: &mut Chance, point: &str) -> Option<String> {
    // Three in four wait at the step until they are killed. The others are killed in the work after
    // it.
    let fault = if chance.below(4) == 0 {
        String::new()
    } else {
        stage.hold_at(point)
    };
    let mut child = stage.start(&TURN, &fault);
    let passed = || stage.trace().iter().any(|passed| passed == point);

    let mut ended = false;
    until("the step is not reached", || {
        ended = child.try_wait().unwrap().is_some();
        ended || passed()
    });

    thread::sleep(Duration::from_micros(
        chance.below(MAX_KILL_DELAY_MILLISECONDS * 1000),
    ));
    child.kill().unwrap();

    let was_killed = child.wait().unwrap().code().is_none();
    assert!(passed(), "{point} was not reached");

    stage.trace().pop().filter(|_| was_killed)
}

/// Kills turn after turn in one project.
fn kill_turns(chance: &mut Chance, kills: usize, figures: &Mutex<Figures>) {
    let stage = Stage::with(&["env", "sleep 20", "reply"]);
    let mut image: Option<String> = None;
    let (mut turn, mut killed) = (0, 0);

    while killed < kills {
        turn += 1;
        let content = format!("# Login {turn}\n");
        stage.reply(&content);
        let point = POINTS[usize::try_from(chance.below(POINTS.len() as u64)).unwrap()];
        let calls = stage.calls();
        let hit = kill_at(&stage, chance, point);
        let before = stage.events();
        let images = [image.as_deref(), Some(&content)];
        stage.finish_turn(turn);
        stage.check(&before, &images);
        stage.check_end(turn, &content);
        assert!(
            (1..=2).contains(&(stage.calls() - calls)),
            "{point}: {} calls",
            stage.calls() - calls
        );

        image = Some(content);
        let mut figures = figures.lock().unwrap();
        figures.steps.entry(point.to_owned()).or_default().0 += 1;
        if let Some(hit) = hit {
            killed += 1;
            figures.steps.entry(hit).or_default().1 += 1;
        }
    }

    let events = stage.events();
    let answers = answers(&events);
    let mut figures = figures.lock().unwrap();
    figures.turns += turn;
    figures.calls += stage.calls();
    figures.recorded += events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Called { .. }))
        .count();
    figures.salvaged += answers.iter().filter(|answered| answered.salvaged).count();
    figures.lost += answers
        .iter()
        .filter(|answered| answered.end == CallOutcome::Lost)
        .count();
}

impl Stage {
    /// Finishes a killed turn, or takes it if it had not started.
    fn finish_turn(&self, turn: u64) {
        self.run(&["resume"]).ok();
        let once = self.events();
        self.run(&["resume"]).ok();
        assert_eq!(self.events(), once, "recovery did something twice");
        let started =
            |event: &Event| matches!(event, Event::Started(started) if started.turn == turn);
        if once.iter().any(|(_, event)| started(event)) {
            self.run(&["resume", "s"]).ok();
        } else {
            self.run(&TURN).ok();
        }
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the seed and the statistics are the purpose of a soak run"
)]
fn killed_turns_lose_duplicate_and_leave_nothing() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().unwrap())
    };

    let kills = number("AGENTD_SOAK").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let seed = number("AGENTD_SEED").unwrap_or(now);
    println!("AGENTD_SEED={seed} repeats these choices");
    let (figures, begun) = (Mutex::new(Figures::default()), Instant::now());
    let projects = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let project = projects.fetch_add(1, Ordering::SeqCst);
                    let left = kills.saturating_sub(project * PER_PROJECT);
                    if left == 0 {
                        return;
                    }
                    let mut chance = Chance(seed.wrapping_add(project as u64));
                    kill_turns(&mut chance, left.min(PER_PROJECT), &figures);
                }
            });
        }
    });

    let figures = figures.into_inner().unwrap();
    let table = figures.table(seed, kills, begun.elapsed());
    println!("{table}");
    write(&repository().join("target/kill-loop.txt"), table);

    let hits: usize = figures.steps.values().map(|(_, hit)| hit).sum();
    assert_eq!(hits, kills);
    assert!(figures.calls <= figures.recorded);
}
