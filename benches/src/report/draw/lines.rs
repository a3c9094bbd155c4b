//! A line for each backend over a few steps.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, MARGIN, WIDTH};
use super::series::{legend, legend_height};
use super::{Frame, Series};
use crate::report::table::Drawing;
use crate::stats::as_f64;

/// The room for the values at the left.
const LEFT: f64 = 78.0;
const TOP: f64 = 12.0;
const PLOT: f64 = 230.0;

/// One backend: a value for each step, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) series: Series,
    pub(crate) values: Vec<Option<f64>>,
}

/// Lines on a logarithmic axis.
pub(crate) struct LineChart<'a> {
    pub(crate) frame: Frame<'a>,
    /// What stands under each step.
    pub(crate) steps: Vec<String>,
    /// What the steps are.
    pub(crate) steps_are: &'a str,
    pub(crate) lines: Vec<Line>,
}

impl LineChart<'_> {
    pub(crate) fn draw(self) -> Drawing {
        let bottom = TOP + PLOT;
        let values = self.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let axis = Axis::logarithmic(values, (bottom, TOP));
        let below = bottom + 44.0;
        let mut canvas = Canvas::new(&self.frame, below + legend_height(self.lines.len()));
        self.grid(&mut canvas, &axis, bottom);
        for line in &self.lines {
            let points = line.values.iter().enumerate();
            let points: Vec<(f64, f64)> =
                points.filter_map(|(step, value)| Some((self.place(step), axis.at((*value)?)))).collect();
            canvas.polyline(&line.series.line_class(), &points);
            points.iter().for_each(|point| line.series.mark(&mut canvas, *point));
        }
        legend(&mut canvas, self.lines.iter().map(|line| &line.series), below);
        let svg = canvas.finish();
        self.frame.drawn(svg)
    }

    fn place(&self, step: usize) -> f64 {
        let steps = as_f64(self.steps.len().max(1));
        (as_f64(step) + 0.5) / steps * (WIDTH - MARGIN - LEFT) + LEFT
    }

    fn grid(&self, canvas: &mut Canvas, axis: &Axis, bottom: f64) {
        for tick in axis.ticks() {
            canvas.line("grid", (LEFT, axis.at(tick)), (WIDTH - MARGIN, axis.at(tick)));
        }
        for tick in axis.ticks() {
            canvas.text("tick", (LEFT - 6.0, axis.at(tick) + 4.5), Anchor::End, &self.frame.unit.tick(tick));
        }
        for (step, label) in self.steps.iter().enumerate() {
            canvas.text("tick", (self.place(step), bottom + 16.0), Anchor::Middle, label);
        }
        canvas.text("axis", (f64::midpoint(LEFT, WIDTH - MARGIN), bottom + 34.0), Anchor::Middle, self.steps_are);
    }
}
