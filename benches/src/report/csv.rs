//! The figures as CSV, one a line: for spreadsheets.

use std::fmt::Write as _;

use super::model::{Report, ScenarioResult};
use crate::stats::Estimate;

impl Report {
    /// The figures as CSV (RFC 4180): scenario, its parameters, backend, figure, and the figure with its interval.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut csv = "scenario,contenders,clients,name,machine,backend,figure,est,lo,hi\r\n".to_owned();
        for scenario in &self.scenarios {
            let parameters = &scenario.parameters;
            let head = [
                &scenario.id,
                &parameters.contenders.to_string(),
                &parameters.clients,
                &parameters.name,
                &parameters.machine,
            ];
            let head = head.map(|field| quoted(field)).join(",");
            for result in &scenario.results {
                for (figure, value) in figures(result) {
                    let backend = quoted(&result.backend);
                    // Writing to a string cannot fail.
                    let _ = write!(csv, "{head},{backend},{figure},{},{},{}\r\n", value.est, value.lo, value.hi);
                }
            }
        }
        csv
    }
}

fn figures(result: &ScenarioResult) -> impl Iterator<Item = (&'static str, Estimate)> {
    let exact = |value: Option<f64>| value.map(|value| Estimate::new(value, value, value));
    let all = [
        ("p50_us", result.p50_us),
        ("p99_us", result.p99_us),
        ("per_second", result.per_second),
        ("floor_p50_us", exact(result.floor.map(|floor| floor.p50_us))),
        ("floor_per_second", exact(result.floor.map(|floor| floor.per_second))),
        ("floor_ratio", result.floor_ratio),
        ("aa_ratio", result.aa_ratio),
        ("jain", exact(result.jain)),
        ("max_wait_ms", exact(result.max_wait_ms)),
        ("server_commands_per_second", exact(result.server_commands_per_second)),
        ("housekeeping_per_second", exact(result.housekeeping_per_second)),
        ("cpu_ns", result.cpu_ns),
    ];
    all.into_iter().filter_map(|(figure, value)| Some((figure, value?)))
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!((quoted("redis"), quoted("a,\"b\"")), ("redis".to_owned(), "\"a,\"\"b\"\"\"".to_owned()));
    }
}
