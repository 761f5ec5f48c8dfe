//! A turn that exits, fails or is delayed at each of its fail points, and its recovery.

use std::thread;

use agentd::fail::POINTS;

use super::{NOTHING, Stage, TARGET, TURN, UNDISTURBED, WRITTEN, answers, call_outcomes, names};

/// Content of the target before the turn.
const OLD: &str = "# Old\n";

/// The fail points that recovery passes when a reply exists that was not read.
const RECOVERING: [&str; 8] = [
    "claimed",
    "committing",
    "committed",
    "writing",
    "written",
    "settling",
    "settled",
    "released",
];

/// Runs a test at each fail point, with a new target and with an existing one, in two threads.
fn at_each_point(points: &[&str], work: impl Fn(&Stage, &str, &[Option<&str>]) + Sync) {
    thread::scope(|scope| {
        for old in [None, Some(OLD)] {
            let work = &work;
            scope.spawn(move || {
                for point in points {
                    let stage = Stage::new();
                    if let Some(old) = old {
                        stage.project.write(TARGET, old);
                    }
                    work(&stage, point, &[old, Some(WRITTEN)]);
                }
            });
        }
    });
}

fn place(point: &str) -> usize {
    POINTS.iter().position(|known| *known == point).unwrap()
}

#[test]
fn turn_passes_all_fail_points_in_order() {
    let stage = Stage::new();
    stage.turn().report();
    assert_eq!(
        stage.trace(),
        POINTS,
        "each fail point once: the tests below cover a new one"
    );
    assert_eq!(names(&stage.events()), UNDISTURBED);
    stage.check(&stage.events(), &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
    assert_eq!(stage.calls(), 1);
}

#[test]
fn turn_killed_at_a_fail_point_gives_the_same_result() {
    at_each_point(&POINTS, |stage, point, images| {
        let run = stage.run_with(&TURN, &format!("{point}=abort"));
        assert_eq!(run.code, -1, "{point}: {}", run.stderr);
        assert_eq!(
            stage.trace(),
            POINTS[..=place(point)],
            "it ended at {point}"
        );

        // The ledger contains everything before the fail point.
        let before = stage.events();
        let there = |event: &str| names(&before).iter().any(|name| name == event);

        for (from, event) in [
            ("called", "called"),
            ("recorded", "launched"),
            ("kept", "answered"),
            ("committed", "replied"),
            ("committed", "intended"),
            ("settled", "settled"),
        ] {
            assert!(
                place(point) < place(from) || there(event),
                "I1: {event} is lost at {point}"
            );
        }

        stage.is_alone_soon();

        stage.finish();
        stage.check(&before, images);
        stage.check_end(1, WRITTEN);

        let calls = match point {
            "launched" | "recorded" => 1..=2,
            _ => 1..=1,
        };
        assert!(
            calls.contains(&stage.calls()),
            "{point}: {} calls",
            stage.calls()
        );

        if place(point) >= place("replied") {
            assert_eq!(
                call_outcomes(&stage.events()),
                ["ok"],
                "{point}: an existing reply was paid for twice"
            );
        }
    });
}

#[test]
fn finished_reply_is_recovered_without_a_new_call() {
    for point in ["replied", "committing"] {
        let stage = Stage::new();
        stage.run_with(&TURN, &format!("{point}=abort"));

        let run = stage.run(&["resume"]);
        assert!(
            run.stderr.contains("the call of s/1 had finished (ok)"),
            "{}",
            run.stderr
        );
        assert!(
            run.stderr.contains("recovered the reply of s/1"),
            "{}",
            run.stderr
        );
        assert_eq!(
            answers(&stage.events())
                .iter()
                .map(|answered| answered.salvaged)
                .collect::<Vec<_>>(),
            [true]
        );
        assert_eq!(stage.calls(), 1);

        stage.check_end(1, WRITTEN);
    }
}

#[test]
fn turn_failing_at_a_fail_point_gives_the_same_result() {
    at_each_point(&POINTS, |stage, point, images| {
        let run = stage.run_with(&TURN, &format!("{point}=error"));
        assert!(
            stage.trace().iter().any(|passed| passed == point),
            "{point} was not reached"
        );
        assert!(
            stage.alive().is_empty(),
            "{point}: the agent is killed when the program exits"
        );

        let before = stage.events();
        if matches!(point, "writing" | "written") {
            // A file that cannot be written does not end a turn: it is reported, and keeps the
            // mode.
            let words = format!("cannot write {TARGET}: the fail point `{point}` is set to fail");
            assert!(
                run.stderr.contains(&words) && run.stderr.contains("next       plan"),
                "{}",
                run.stderr
            );
            assert_eq!(run.code, 0);

            stage.finish();
            assert_eq!(stage.events(), before, "nothing is pending");

            stage.check(&before, images);
            stage.run(&TURN).ok();
            stage.check_end(2, WRITTEN);
            return;
        }

        assert_eq!(run.code, 7, "{point}: {}", run.stderr);
        assert!(
            run.stderr.contains("error[LedgerUnusable]"),
            "{point}: {}",
            run.stderr
        );

        if names(&before).contains(&"started".to_owned()) {
            assert_ne!(
                stage.last_row()["result"],
                "running",
                "{point}: no process is left"
            );
        }

        stage.finish();
        stage.check(&before, images);
        stage.check_end(1, WRITTEN);

        let calls = if matches!(point, "launched" | "recorded") {
            1..=2
        } else {
            1..=1
        };
        assert!(
            calls.contains(&stage.calls()),
            "{point}: {} calls",
            stage.calls()
        );
    });
}

/// A slow process is not treated as dead.
#[test]
fn recovery_leaves_a_slow_turn_alone() {
    at_each_point(&POINTS, |stage, point, images| {
        let mut child = stage.start_held(point);
        let recovery = stage.project.command(&["resume"]).output().unwrap();
        let said = String::from_utf8_lossy(&recovery.stderr);
        assert!(
            recovery.status.success()
                && (said == NOTHING || said.starts_with("note: session `s` is in use by")),
            "{point}: {recovery:?}"
        );
        stage.release();
        assert!(child.wait().unwrap().success());
        assert_eq!(names(&stage.events()), UNDISTURBED, "{point}");
        assert_eq!(stage.calls(), 1);
        stage.check(&[], images);
        stage.check_end(1, WRITTEN);
    });
}

#[test]
fn killed_recovery_is_continued_by_the_next() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");

    stage.run(&["resume"]).ok();
    assert_eq!(
        stage.trace(),
        RECOVERING,
        "these are the points that recovery passes"
    );

    at_each_point(&RECOVERING, |stage, point, images| {
        stage.run_with(&TURN, "replied=abort");
        let first = stage.events();
        assert_eq!(
            stage.run_with(&["resume"], &format!("{point}=abort")).code,
            -1,
            "{point}"
        );
        let second = stage.events();
        assert!(second.starts_with(&first));
        // Again at the same fail point, or past it.
        stage.run_with(&["resume"], &format!("{point}=abort"));
        stage.finish();
        stage.check(&second, images);
        stage.check_end(1, WRITTEN);
        assert_eq!(stage.calls(), 1, "{point}");
    });
}

#[test]
fn retried_turn_killed_at_a_fail_point_gives_the_same_result() {
    let again: Vec<&str> = POINTS
        .into_iter()
        .filter(|point| *point != "prepared")
        .collect();
    at_each_point(&again, |stage, point, images| {
        stage.run_with(&TURN, "called=abort");
        stage.run(&["resume"]).ok();
        assert_eq!(
            (call_outcomes(&stage.events()), stage.calls()),
            (vec!["lost"], 0)
        );
        let run = stage.run_with(&["resume", "s"], &format!("{point}=abort"));
        assert_eq!(run.code, -1, "{point}: {}", run.stderr);
        stage.is_alone_soon();
        let before = stage.events();
        stage.finish();
        stage.check(&before, images);
        stage.check_end(1, WRITTEN);
        assert!(stage.calls() <= 2, "{point}: {} calls", stage.calls());
    });
}
