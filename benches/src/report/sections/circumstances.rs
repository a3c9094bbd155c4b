//! How it was measured, on what, how sure it is, and what is missing.

use super::rows::UNSTEADY;
use crate::report::anchors;
use crate::report::model::{Backend, Report};
use crate::report::table::{Cell, Section, Table, Tone};
use crate::report::text;

pub(super) fn method(report: &Report) -> Section {
    let mut section = Section::new(
        "method",
        "How it was measured",
        format!(
            "Suite {}, seed {}. The unit is the trial, not the operation: every figure is one value a trial, the report shows the \
             median over the trials and a 95 % interval by bootstrap over them.",
            report.suite, report.seed
        ),
    );
    section.text.push(
        "Inside a trial lockyard and the floor take turns in short blocks, forth and back, and each ratio is formed inside its trial, \
         because the same code takes three times as long a minute later on a machine whose processors halt between messages. \
         The floor runs a second time as a control (A/A). The backends follow each other in a random order of the seed."
            .to_owned(),
    );
    section.text.push(
        "uncontended, handoff, open_loop: the ratio is of the median latency, and less is better. parallel, contended: the ratio is of the \
         throughput, and more is better. All contenders of a side have had their turns before it is timed: the opening of their sessions and \
         listeners is not in these figures. A hand-over is an acquisition whose holder is not the one before. Fairness is Jain's index. \
         Times of open_loop count from when a cycle was due, so a stall counts for all that were due meanwhile."
            .to_owned(),
    );
    section
}

pub(super) fn environment(report: &Report) -> Section {
    let env = &report.env;
    let mut machine = Table::new("Machine", ["what", "value"]);
    let memory = format!("{} MiB", env.memory_mib);
    let container = if env.container { "yes" } else { "no" };
    let rows: [(&str, String); 9] = [
        ("date", env.date.clone()),
        ("processor", env.cpu.clone()),
        ("processors", env.cores.to_string()),
        ("memory", memory),
        ("system", env.os.clone()),
        ("kernel", env.kernel.clone()),
        ("container", container.to_owned()),
        ("load at the start", env.load.to_string()),
        ("built by", format!("{}, {} profile", env.rustc, env.profile)),
    ];
    for (what, value) in rows {
        machine.row(what, vec![value.into()]);
    }
    let mut section = Section::new("environment", "On what", where_servers_stand(report));
    if env.profile == "debug" {
        section.text.push("This is a debug build: its figures mean nothing.".to_owned());
    }
    section.with([machine, servers(report)])
}

fn where_servers_stand(report: &Report) -> &'static str {
    if report.ours().any(|backend| backend.topology.starts_with("joined")) {
        "Servers that were joined by their URL stand wherever they stand; clients, and all other servers, share this machine."
    } else {
        "Clients and servers share this machine; figures of another differ."
    }
}

fn servers(report: &Report) -> Table {
    let columns = ["backend", "version", "how it stands", "round trip", "a write is safe", "settings"];
    let mut table = Table::new("Servers, as they said of themselves", columns).at("servers");
    for backend in report.ours() {
        let version = Some(backend.version.clone()).filter(|version| !version.is_empty());
        let cells = vec![
            Cell::or_dash(version),
            backend.topology.as_str().into(),
            Cell::or_dash(backend.round_trip_us.map(text::micros)),
            durability(backend),
            settings(backend),
        ];
        table.row_at(anchors::server(backend), backend.id.as_str(), cells);
    }
    table.without_empty_columns()
}

/// What the effective settings mean for a write that was answered.
fn durability(backend: &Backend) -> Cell {
    let is = |name: &str, value: &str| backend.settings.get(name).is_some_and(|own| own == value);
    let has = |name: &str| backend.settings.contains_key(name);
    let text = match backend.kind.as_str() {
        "redis" if is("appendonly", "yes") && is("appendfsync", "always") => "on disk before its answer",
        "redis" if is("appendonly", "yes") => "on disk within about a second",
        "redis" if has("appendonly") => "in memory only: a crash forgets it",
        "postgres" if is("fsync", "on") && !is("synchronous_commit", "off") && has("synchronous_commit") => {
            "on disk before its answer; an advisory lock lives in memory"
        }
        "postgres" if has("fsync") => "a crash may forget the last ones",
        "etcd" => "on disk before its answer (its default)",
        "zookeeper" => "on disk before its answer (its default; not asked)",
        "memory" => "in memory only",
        _ => return Cell::or_dash(None),
    };
    text.into()
}

fn settings(backend: &Backend) -> Cell {
    let show = |(name, value): (&String, &String)| {
        if value.is_empty() { format!("{name} empty") } else { format!("{name} {value}") }
    };
    let settings: Vec<String> = backend.settings.iter().map(show).collect();
    Cell::or_dash(Some(settings.join(", ")).filter(|text| !text.is_empty()))
}

pub(super) fn noise(report: &Report) -> Section {
    let mut table = Table::new(
        "The floor against itself, and how much trials differ",
        ["backend", "scenario", "A/A", "variation over the trials"],
    );
    let mut unsteady = 0_usize;
    let mut varied = 0_usize;
    for scenario in &report.scenarios {
        for result in scenario.results.iter().filter(|result| result.variation.is_some()) {
            varied += 1;
            unsteady += usize::from(result.variation.is_some_and(|v| v > UNSTEADY));
            if result.aa_ratio.is_none() {
                continue;
            }
            let what = Cell::new(anchors::scenario(scenario)).shown_by(anchors::figure(scenario, &result.backend));
            let aa = Cell::or_dash(result.aa_ratio.as_ref().map(text::ratio));
            let variation = result.variation.map_or_else(
                || Cell::or_dash(None),
                |v| Cell::toned(format!("{:.0} %", v * 100.0), if v > UNSTEADY { Tone::Bad } else { Tone::Plain }),
            );
            table.row(report.name(&result.backend), vec![what, aa, variation]);
        }
    }
    let text = "A/A is the bare driver over itself in the same trials: how far it is from 1 is how far any ratio here may be from the \
                truth. Absolute times that vary are the machine; ratios hold all the same, because both sides share the moment.";
    let mut section = Section::new("noise", "How sure it is", text);
    section.text.push(format!(
        "{unsteady} of {varied} figures vary by more than 10 % between the trials and are marked †. Two figures whose intervals \
         meet are called a tie, and no winner is named among them.",
    ));
    if table.rows.is_empty() {
        section.text.push("No floor ran twice: how large the noise is was not measured.".to_owned());
        return section;
    }
    section.with([table])
}

pub(super) fn not_measured(report: &Report) -> Section {
    let mut table = Table::new("Not compared", ["backend", "reason", "what would help"]);
    for skipped in &report.skipped {
        let hint = Some(skipped.hint.clone()).filter(|hint| !hint.is_empty());
        table.row(skipped.id.as_str(), vec![skipped.reason.as_str().into(), Cell::or_dash(hint)]);
    }
    let text =
        "Also not measured: servers on other machines than the clients, replicated servers and their failover, TLS.";
    let mut section = Section::new("not-measured", "What is missing", text);
    if report.cancelled {
        section.text.push("The run was ended early: what had not been measured by then is missing.".to_owned());
    }
    if table.rows.is_empty() {
        section.text.push("Every backend that was asked for was compared.".to_owned());
    } else {
        section.tables.push(table);
    }
    section.tables.extend(cells_without_figures(report));
    section
}

/// Single cells that have no figures, with the reason.
fn cells_without_figures(report: &Report) -> Option<Table> {
    let mut table = Table::new("Cells without figures", ["backend", "scenario", "reason"]);
    for scenario in &report.scenarios {
        for result in scenario.results.iter().filter(|result| result.trials == 0) {
            let what = Cell::new(anchors::scenario(scenario)).shown_by(anchors::figure(scenario, &result.backend));
            let reason = result.missing.as_deref().unwrap_or("no reason given");
            table.row(report.name(&result.backend), vec![what, reason.into()]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}
