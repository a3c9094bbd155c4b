//! Where things stand in the report: the same anchors in the page and in the Markdown, so that others can link to them.

use super::model::{Backend, ScenarioResults};

/// A scenario: `handoff`, `uncontended-fresh`, `contended-64-one`, `takeover-killed`. Parameters stand in it where a scenario has
/// several of them.
pub(super) fn scenario(scenario: &ScenarioResults) -> String {
    let parameters = &scenario.parameters;
    let n = parameters.contenders;
    let mut anchor = match scenario.id.as_str() {
        "contended" | "parallel" | "waiting_cost" | "hold_cost" | "connections" => format!("{}-{n}", scenario.id),
        id => id.to_owned(),
    };
    let mut add = |part: &str| {
        anchor.push('-');
        anchor.push_str(part);
    };
    match scenario.id.as_str() {
        "uncontended" if parameters.name == "fresh" => add("fresh"),
        "contended" if parameters.clients == "one" => add("one"),
        _ => {}
    }
    if parameters.machine == "awake" {
        add("awake");
    }
    if parameters.processes != 1 {
        add(&format!("{}-processes", parameters.processes));
    }
    match parameters.local_queue.as_str() {
        "on" => {}
        "off" => add("unqueued"),
        other => add(other),
    }
    if let Some(fault) = &parameters.fault {
        add(fault);
    }
    plain(&anchor)
}

/// The row of a backend under a scenario.
pub(super) fn figure(of: &ScenarioResults, backend: &str) -> String {
    format!("{}-{}", scenario(of), plain(backend))
}

/// The row of a check.
pub(super) fn check(name: &str) -> String {
    format!("check-{}", plain(&name.replace("::", "-")))
}

/// The row of a capability.
pub(super) fn capability(name: &str) -> String {
    format!("capability-{}", plain(name))
}

/// The row of a backend's server.
pub(super) fn server(backend: &Backend) -> String {
    format!("server-{}", plain(&backend.id))
}

/// Only what needs no escaping anywhere.
fn plain(text: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    text.chars().map(|letter| if keep(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_plain() {
        assert_eq!(check("hung::holder_loses"), "check-hung-holder_loses");
        assert_eq!(plain("peer:a\"b <c>"), "peer-a-b--c-");
    }
}
