//! A point for each backend between two axes.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, MARGIN, WIDTH};
use super::series::{legend, legend_height};
use super::{Frame, Series, Unit};
use crate::report::table::Drawing;

const LEFT: f64 = 62.0;
const TOP: f64 = 12.0;
const PLOT: f64 = 230.0;

/// One backend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) series: Series,
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// Points over two linear axes from 0.
pub(crate) struct ScatterChart<'a> {
    /// Its unit is that of y.
    pub(crate) frame: Frame<'a>,
    pub(crate) x_is: &'a str,
    pub(crate) points: Vec<Point>,
}

impl ScatterChart<'_> {
    pub(crate) fn draw(self) -> Drawing {
        let (bottom, right) = (TOP + PLOT, WIDTH - MARGIN);
        // Room at both ends: a marker is not cut by the frame.
        let x = Axis::linear(self.points.iter().map(|point| point.x * 1.05), (LEFT + 8.0, right - 8.0));
        let y = Axis::linear(self.points.iter().map(|point| point.y * 1.05), (bottom - 8.0, TOP));
        let below = bottom + 44.0;
        let mut canvas = Canvas::new(&self.frame, below + legend_height(self.points.len()));
        for tick in y.ticks() {
            canvas.line("grid", (LEFT, y.at(tick)), (right, y.at(tick)));
            canvas.text("tick", (LEFT - 6.0, y.at(tick) + 4.5), Anchor::End, &self.frame.unit.tick(tick));
        }
        for tick in x.ticks() {
            canvas.line("grid", (x.at(tick), TOP), (x.at(tick), bottom));
        }
        for (tick, label) in x.labels(Unit::Plain) {
            canvas.text("tick", (x.at(tick), bottom + 16.0), Anchor::Middle, &label);
        }
        canvas.text("axis", (f64::midpoint(LEFT, right), bottom + 34.0), Anchor::Middle, self.x_is);
        for point in &self.points {
            point.series.mark(&mut canvas, (x.at(point.x), y.at(point.y)));
        }
        legend(&mut canvas, self.points.iter().map(|point| &point.series), below);
        let svg = canvas.finish();
        self.frame.drawn(svg)
    }
}
