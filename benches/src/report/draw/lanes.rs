//! A time line with a lane for each backend: who has the name before and after a crash.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, MARGIN, WIDTH};
use super::dots::grid_above;
use super::{Frame, Series};
use crate::report::table::Drawing;
use crate::stats::{Estimate, as_f64};

const LANE: f64 = 42.0;
const TOP: f64 = 28.0;
const BAR: f64 = 12.0;
/// The room for the time before the crash.
const BEFORE: f64 = 26.0;

/// One backend: after how many seconds the next holder has the name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lane {
    pub(crate) series: Series,
    /// What stands beside the name.
    pub(crate) value: String,
    pub(crate) gap: Estimate,
    /// By when it was promised.
    pub(crate) bound: Option<f64>,
}

/// Lanes over seconds since the crash.
pub(crate) struct LaneChart<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) lanes: Vec<Lane>,
}

impl LaneChart<'_> {
    pub(crate) fn draw(self) -> Drawing {
        let ends = self.lanes.iter().flat_map(|lane| [Some(lane.gap.hi * 1.05), lane.bound]).flatten();
        let axis = Axis::linear(ends, (MARGIN + BEFORE, WIDTH - MARGIN));
        let height = LANE.mul_add(as_f64(self.lanes.len()), TOP) + 6.0;
        let mut canvas = Canvas::new(&self.frame, height);
        grid_above(&mut canvas, &axis, self.frame.unit, height);
        for (at, lane) in self.lanes.iter().enumerate() {
            draw_lane(&mut canvas, &axis, LANE.mul_add(as_f64(at), TOP), lane);
        }
        let svg = canvas.finish();
        self.frame.drawn(svg)
    }
}

/// The holder until the crash, nobody, the next holder.
fn draw_lane(canvas: &mut Canvas, axis: &Axis, y: f64, lane: &Lane) {
    let (line, bar) = (y + 13.0, y + 20.0);
    let right = WIDTH - MARGIN;
    canvas.text("name", (MARGIN, line), Anchor::Start, &lane.series.label);
    canvas.text("value", (right, line), Anchor::End, &lane.value);
    canvas.bar("before", (MARGIN, axis.at(0.0)), (bar, BAR));
    canvas.bar("nobody", (axis.at(0.0), axis.at(lane.gap.est)), (bar, BAR));
    canvas.bar(&lane.series.fill_class(), (axis.at(lane.gap.est), right), (bar, BAR));
    let middle = bar + BAR / 2.0;
    canvas.line("crash", (axis.at(0.0), bar - 4.0), (axis.at(0.0), bar + BAR + 4.0));
    canvas.line("spread", (axis.at(lane.gap.lo), middle), (axis.at(lane.gap.hi), middle));
    if let Some(bound) = lane.bound {
        canvas.line("bound", (axis.at(bound), bar - 3.0), (axis.at(bound), bar + BAR + 3.0));
    }
}
