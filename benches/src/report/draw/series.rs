//! What tells one backend from another in a chart: a colour, a marker and a dash together.

use super::canvas::{Anchor, Canvas, WIDTH};

/// How many colours, markers and dashes there are.
const KINDS: usize = 8;
/// Half the size of a marker.
const HALF: f64 = 4.5;
/// The height of a line of the legend.
const LINE: f64 = 20.0;

/// One backend in every chart, by its place in the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) label: String,
    place: usize,
}

impl Series {
    /// The series of the backend at this place.
    pub(crate) fn new(label: &str, place: usize) -> Self {
        Self { label: label.to_owned(), place }
    }

    const fn colour(&self) -> usize {
        self.place % KINDS
    }

    /// The markers shift when the colours begin anew, so that both together stay different.
    const fn shape(&self) -> usize {
        (self.place + self.place / KINDS) % KINDS
    }

    /// The class of the line through its marks.
    pub(super) fn line_class(&self) -> String {
        format!("through c{} d{}", self.colour(), self.shape())
    }

    /// The class of a filled part.
    pub(super) fn fill_class(&self) -> String {
        format!("mark f{}", self.colour())
    }

    /// The class of an interval.
    pub(super) fn interval_class(&self) -> String {
        format!("interval c{}", self.colour())
    }

    /// Its marker at a place.
    pub(super) fn mark(&self, canvas: &mut Canvas, at: (f64, f64)) {
        let class = format!("mark m c{} f{}", self.colour(), self.colour());
        canvas.path(&class, &outline(self.shape(), at));
    }
}

/// The outline of a marker: all of about the same size.
fn outline(shape: usize, (x, y): (f64, f64)) -> String {
    let h = HALF;
    let (l, r, t, b) = (x - h, x + h, y - h, y + h);
    match shape {
        // A circle, a square, a triangle, a diamond.
        0 => format!("M{l:.1} {y:.1}a{h} {h} 0 1 0 9 0a{h} {h} 0 1 0 -9 0z"),
        1 => format!("M{l:.1} {t:.1}h9v9h-9z"),
        2 => format!("M{x:.1} {t:.1}l5.2 9h-10.4z"),
        3 => format!("M{:.1} {y:.1}l5.8 -5.8l5.8 5.8l-5.8 5.8z", x - 5.8),
        // A triangle that hangs, an x, a plus, a star of three strokes.
        4 => format!("M{x:.1} {b:.1}l5.2 -9h-10.4z"),
        5 => format!("M{l:.1} {t:.1}L{r:.1} {b:.1}M{r:.1} {t:.1}L{l:.1} {b:.1}"),
        6 => format!("M{l:.1} {y:.1}H{r:.1}M{x:.1} {t:.1}V{b:.1}"),
        _ => format!(
            "M{l:.1} {y:.1}H{r:.1}M{x:.1} {t:.1}V{b:.1}M{:.1} {:.1}l6 6M{:.1} {:.1}l6 -6",
            x - 3.0,
            y - 3.0,
            x - 3.0,
            y + 3.0
        ),
    }
}

/// How high the legend of so many series is.
pub(super) fn legend_height(series: usize) -> f64 {
    crate::stats::as_f64(series.div_ceil(2)) * LINE + 6.0
}

/// Markers, dashes and names, two in a line.
pub(super) fn legend<'a>(canvas: &mut Canvas, series: impl Iterator<Item = &'a Series>, top: f64) {
    for (at, series) in series.enumerate() {
        let x = if at % 2 == 0 { 2.0 } else { WIDTH / 2.0 + 6.0 };
        let y = crate::stats::as_f64(at / 2).mul_add(LINE, top) + LINE / 2.0;
        canvas.line(&series.line_class(), (x, y), (x + 26.0, y));
        series.mark(canvas, (x + 13.0, y));
        canvas.text("name", (x + 32.0, y + 4.5), Anchor::Start, &series.label);
    }
}
