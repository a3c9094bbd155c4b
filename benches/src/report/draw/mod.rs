//! Charts as inline SVG, drawn here: no library, no script, colours from the page.
//!
//! A chart is as wide as the narrowest screen, so that its text is never set smaller than it says. Each series has a colour, a
//! marker and a dash of its own: no chart needs colours to be read.

mod axis;
mod canvas;
mod dots;
mod lanes;
mod lines;
mod scatter;
mod series;

pub(super) use dots::{Dot, DotChart, DotRow};
pub(super) use lanes::{Lane, LaneChart};
pub(super) use lines::{Line, LineChart};
pub(super) use scatter::{Point, ScatterChart};
pub(super) use series::Series;

use super::table::{Drawing, Table};

/// What every chart has.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    /// How to read it.
    pub(super) reading: &'a str,
    pub(super) unit: Unit,
    /// The same data as a table.
    pub(super) data: Table,
}

impl Frame<'_> {
    fn drawn(self, svg: String) -> Drawing {
        Drawing { caption: self.title.to_owned(), reading: self.reading.to_owned(), svg, data: self.data }
    }
}

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Micros,
    Seconds,
    /// Without a unit.
    Plain,
}

impl Unit {
    /// A value at which a grid line stands: without needless decimals.
    fn tick(self, value: f64) -> String {
        let trimmed = |value: f64| {
            let text = super::text::digits(value);
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        };
        match self {
            Self::Micros if value >= 999_999.5 => format!("{} s", trimmed(value / 1e6)),
            Self::Micros if value >= 999.5 => format!("{} ms", trimmed(value / 1000.0)),
            Self::Micros => format!("{} µs", trimmed(value)),
            Self::Seconds => format!("{} s", trimmed(value)),
            Self::Plain => trimmed(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_needless_decimals() {
        let ticks = [(Unit::Micros, 1000.0), (Unit::Micros, 10.0), (Unit::Seconds, 2.5), (Unit::Plain, 10_000.0)];
        assert_eq!(ticks.map(|(unit, value)| unit.tick(value)), ["1 ms", "10 µs", "2.5 s", "10,000"]);
        assert_eq!((Unit::Plain.tick(0.0), Unit::Micros.tick(1e6)), ("0".to_owned(), "1 s".to_owned()));
    }
}
