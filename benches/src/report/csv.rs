//! The figures as CSV, one a line: for spreadsheets.

use std::fmt::Write as _;

use super::figures::{FIGURES, Figure};
use super::model::Report;

impl Report {
    /// The figures as CSV (RFC 4180): scenario, its parameters, backend, figure, and the figure with its interval.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut csv =
            "scenario,contenders,clients,name,machine,backend,figure,est,lo,hi,processes,local_queue,fault,rate\r\n"
                .to_owned();
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
            let rate = parameters.rate.map(|rate| rate.to_string()).unwrap_or_default();
            let fault = parameters.fault.as_deref().unwrap_or_default();
            let tail = format!("{},{},{fault},{rate}", parameters.processes, parameters.local_queue);
            for result in &scenario.results {
                let backend = quoted(&result.backend);
                for Figure { name, of } in &FIGURES {
                    if let Some(value) = of(result) {
                        // Writing to a string cannot fail.
                        let _ =
                            write!(csv, "{head},{backend},{name},{},{},{},{tail}\r\n", value.est, value.lo, value.hi);
                    }
                }
            }
        }
        csv
    }
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
