//! S2, R4: markers in the output of an agent.

use agentd::orchestrator::parse_review_marker;
use agentd::{ErrorKind, ReviewResult};

#[test]
fn r4_structured_response_parsing_utilities() {
    for verdict in ReviewResult::ALL {
        let output = format!("I have looked at all of it.\n\n<review>{verdict}</review>\n");
        assert_eq!(parse_review_marker(&output).unwrap(), verdict);
    }
}

#[test]
fn scenario_parsing_markers_from_structured_xml_response() {
    let output = "<response>\nTwo gaps.\n<review>NEEDS_REVISION</review>\n</response>";
    assert_eq!(
        parse_review_marker(output).unwrap(),
        ReviewResult::NeedsRevision
    );
    assert_eq!(
        parse_review_marker("<review>NEEDS_CHANGES</review>").unwrap(),
        ReviewResult::NeedsChanges
    );
}

#[test]
fn scenario_handling_missing_or_conflicting_review_markers() {
    for output in [
        "",
        "All is well, so it may PASS.",
        "<thought><review>PASS</review></thought>",
    ] {
        let error = parse_review_marker(output).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingReviewMarker, "{output}");
    }

    for output in [
        "<review>PASS</review><review>NEEDS_REVISION</review>",
        "<review>NEEDS_REVISION</review>\nor rather\n<review>PASS</review>",
    ] {
        assert_eq!(
            parse_review_marker(output).unwrap(),
            ReviewResult::NeedsRevision,
            "{output}"
        );
    }

    // The order is total.
    for pair in ReviewResult::ALL.windows(2) {
        let output = format!("<review>{}</review> <review>{}</review>", pair[1], pair[0]);
        assert_eq!(parse_review_marker(&output).unwrap(), pair[1]);
    }
}
