//! A row for each backend, with its marks on one axis.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, MARGIN, WIDTH};
use super::{Frame, Series, Unit};
use crate::report::table::Drawing;
use crate::stats::{Estimate, as_f64};

const ROW: f64 = 40.0;
const TOP: f64 = 28.0;

/// A value with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    pub(crate) series: Series,
    pub(crate) value: Estimate,
}

/// One backend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DotRow {
    pub(crate) label: String,
    /// What stands beside the name.
    pub(crate) value: String,
    pub(crate) dots: Vec<Dot>,
    /// What it is compared with: a hollow diamond.
    pub(crate) floor: Option<f64>,
}

/// Dots with their intervals: on a logarithmic axis, or on a linear one from 0.
pub(crate) struct DotChart<'a> {
    pub(crate) frame: Frame<'a>,
    /// The least that a linear axis reaches to.
    pub(crate) linear: Option<f64>,
    pub(crate) rows: Vec<DotRow>,
}

impl DotChart<'_> {
    pub(crate) fn draw(self) -> Drawing {
        let values = self.rows.iter().flat_map(|row| {
            let dots = row.dots.iter().flat_map(|dot| [dot.value.lo, dot.value.est, dot.value.hi]);
            dots.chain(row.floor)
        });
        let span = (MARGIN, WIDTH - MARGIN);
        let axis = match self.linear {
            Some(to) => Axis::linear(values.chain([to]), span),
            None => Axis::logarithmic(values, span),
        };
        let height = ROW.mul_add(as_f64(self.rows.len()), TOP) + 6.0;
        let mut canvas = Canvas::new(&self.frame, height);
        grid_above(&mut canvas, &axis, self.frame.unit, height);
        for (at, row) in self.rows.iter().enumerate() {
            draw_row(&mut canvas, &axis, ROW.mul_add(as_f64(at), TOP), row);
        }
        let svg = canvas.finish();
        self.frame.drawn(svg)
    }
}

/// Grid lines from top to bottom, with their values above.
pub(super) fn grid_above(canvas: &mut Canvas, axis: &Axis, unit: Unit, bottom: f64) {
    for tick in axis.ticks() {
        let x = axis.at(tick);
        canvas.line("grid", (x, 18.0), (x, bottom));
    }
    for (tick, label) in axis.labels(unit) {
        let x = axis.at(tick);
        let (x, anchor) = if x < WIDTH / 8.0 {
            (x - 2.0, Anchor::Start)
        } else if x > WIDTH * 7.0 / 8.0 {
            (x + 2.0, Anchor::End)
        } else {
            (x, Anchor::Middle)
        };
        canvas.text("tick", (x, 12.0), anchor, &label);
    }
}

fn draw_row(canvas: &mut Canvas, axis: &Axis, y: f64, row: &DotRow) {
    let (line, dot) = (y + 13.0, y + 27.0);
    let right = WIDTH - MARGIN;
    canvas.text("name", (MARGIN, line), Anchor::Start, &row.label);
    canvas.text("value", (right, line), Anchor::End, &row.value);
    canvas.line("track", (MARGIN, dot), (right, dot));
    if let Some(floor) = row.floor {
        let x = axis.at(floor);
        canvas.path("floor", &format!("M{:.1} {dot:.1}l6.5 -6.5l6.5 6.5l-6.5 6.5z", x - 6.5));
    }
    for Dot { series, value } in &row.dots {
        canvas.line(&series.interval_class(), (axis.at(value.lo), dot), (axis.at(value.hi), dot));
        series.mark(canvas, (axis.at(value.est), dot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Table;

    #[test]
    fn texts_are_escaped_and_everything_is_named() {
        let data = Table::new("data", ["backend"]);
        let frame = Frame { title: "Cycle", reading: "a & b", unit: Unit::Micros, data };
        let dot = Dot { series: Series::new("<b>", 0), value: Estimate::new(10.0, 9.0, 12.0) };
        let row = DotRow { label: "<b>".to_owned(), value: "10 µs".to_owned(), dots: vec![dot], floor: Some(8.0) };
        let svg = DotChart { frame, linear: None, rows: vec![row] }.draw().svg;
        assert!(svg.contains("role=\"img\"") && svg.contains("<title") && svg.contains("a &amp; b"), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
    }
}
