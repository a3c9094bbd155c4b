//! The elements of a drawing; every text in it is escaped here.

use std::fmt::Write as _;

use super::Frame;

/// As wide as the text of the page on a screen of 375 pixels: one unit is one pixel there.
pub(super) const WIDTH: f64 = 343.0;
/// Free space at the sides.
pub(super) const MARGIN: f64 = 12.0;
/// How wide a letter of the charts is at most, on average.
const LETTER: f64 = 7.4;

/// Where a text begins, stands, or ends.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows.
pub(super) struct Canvas(String);

impl Canvas {
    /// An empty drawing with its title and description.
    pub(super) fn new(frame: &Frame<'_>, height: f64) -> Self {
        let id: String = frame.title.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut canvas = Self(String::new());
        canvas.push(format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(frame.title),
            escape(frame.reading)
        ));
        canvas
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text);
        self.push(format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>"));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    pub(super) fn bar(&mut self, class: &str, (left, right): (f64, f64), (y, height): (f64, f64)) {
        let width = (right - left).max(0.5);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    pub(super) fn path(&mut self, class: &str, d: &str) {
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\"/>"));
    }

    /// A line through points.
    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")));
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }

    /// Writing to a string cannot fail.
    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
    }
}

/// How wide a text is at most, about.
pub(super) fn width_of(text: &str) -> f64 {
    crate::stats::as_f64(text.chars().count()) * LETTER
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
