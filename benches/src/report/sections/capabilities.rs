//! What each backend promises.

use crate::report::anchors;
use crate::report::model::Report;
use crate::report::table::{Cell, Section, Table, Tone};

/// The capabilities with the question that each answers.
const QUESTIONS: &[(&str, &str)] = &[
    ("liveness", "What keeps a hold alive?"),
    ("expires_hung", "Does a holder that hangs lose the lock?"),
    ("fencing", "Fencing tokens?"),
    ("restart_safe", "Kept across a restart of the server?"),
    ("failover_safe", "Kept across a failover?"),
    ("queue", "In which order do waiters get it?"),
    ("wake", "How do waiters learn that it is free?"),
    ("recheck", "Longest wait after a lost wake-up"),
    ("ttl_min", "Shortest ttl"),
    ("slack", "Blocks others after its ttl for at most"),
    ("kinds", "Kinds of locks"),
    ("fixed_lease", "Leases without renewal?"),
    ("inspect", "Tells who holds it?"),
];

pub(super) fn capabilities(report: &Report) -> Section {
    let backends: Vec<_> = report.ours().collect();
    let columns = std::iter::once("question").chain(backends.iter().map(|backend| backend.id.as_str()));
    let mut table = Table::new("Capabilities as each backend states them", columns);
    for (capability, question) in QUESTIONS {
        let cells = backends.iter().map(|backend| {
            let value = backend.capabilities.get(*capability).map(String::as_str);
            Cell::toned(value.unwrap_or("–"), tone(capability, value))
        });
        table.row_at(anchors::capability(capability), *question, cells.collect());
    }
    let text = "No lock alone makes an effect happen once: a holder that was paused past its lease acts late all the same, and \
                only a resource that checks the fencing token refuses it. Durable tokens rise across a crash of the server too.";
    Section::new("capabilities", "What each one promises", text).with([table])
}

/// Whether a capability is good to have, or bad to lack.
pub(super) fn tone(capability: &str, value: Option<&str>) -> Tone {
    match (capability, value) {
        (_, None) => Tone::Faint,
        ("fencing", Some("none")) | ("expires_hung", Some("no")) => Tone::Bad,
        ("fencing", Some("durable")) | ("expires_hung" | "restart_safe" | "failover_safe", Some("yes")) => Tone::Good,
        _ => Tone::Plain,
    }
}
