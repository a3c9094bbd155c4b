//! How it was measured, on what, how sure it is, and what is missing.

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
        "uncontended, handoff: the ratio is of the median latency, and less is better. parallel, contended: the ratio is of the \
         throughput, and more is better. A hand-over is an acquisition whose holder is not the one before. Fairness is Jain's index."
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
    let mut servers = Table::new("Servers", ["backend", "version", "how it stands", "settings"]);
    for backend in &report.backends {
        let version = Some(backend.version.clone()).filter(|version| !version.is_empty());
        servers.row(
            backend.id.as_str(),
            vec![Cell::or_dash(version), backend.topology.as_str().into(), settings(backend)],
        );
    }
    let mut section =
        Section::new("environment", "On what", "Clients and servers share this machine; figures of another differ.");
    if env.profile == "debug" {
        section.text.push("This is a debug build: its figures mean nothing.".to_owned());
    }
    section.with([machine, servers])
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
    for scenario in report.scenarios.iter().filter(|scenario| scenario.id == "uncontended") {
        for result in &scenario.results {
            let what = format!("{} name, {} machine", scenario.parameters.name, scenario.parameters.machine);
            let aa = Cell::or_dash(result.aa_ratio.as_ref().map(text::ratio));
            let variation = result.variation.map(|v| (format!("{:.0} %", v * 100.0), v));
            let variation = variation.map_or_else(
                || Cell::or_dash(None),
                |(text, v)| Cell::toned(text, if v > 0.10 { Tone::Bad } else { Tone::Plain }),
            );
            table.row(result.backend.as_str(), vec![what.into(), aa, variation]);
        }
    }
    let text = "A/A is the bare driver over itself in the same trials: how far it is from 1 is how far any ratio here may be from the \
                truth. Absolute times that vary are the machine; ratios hold all the same, because both sides share the moment.";
    Section::new("noise", "How sure it is", text).with([table])
}

pub(super) fn not_measured(report: &Report) -> Section {
    let mut table = Table::new("Not compared", ["backend", "reason", "what would help"]);
    for skipped in &report.skipped {
        let hint = Some(skipped.hint.clone()).filter(|hint| !hint.is_empty());
        table.row(skipped.id.as_str(), vec![skipped.reason.as_str().into(), Cell::or_dash(hint)]);
    }
    let text = "Also not measured: server processes on other machines, replicated servers, failover, TLS.";
    let mut section = Section::new("not-measured", "What is missing", text);
    if report.cancelled {
        section.text.push("The run was ended early: what had not been measured by then is missing.".to_owned());
    }
    if table.rows.is_empty() {
        section.text.push("Every backend that was asked for was compared.".to_owned());
        return section;
    }
    section.with([table])
}
