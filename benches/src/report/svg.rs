//! Charts as inline SVG, drawn here: no library, no script, colours from the page.

use std::fmt::Write as _;

use super::table::Drawing;
use super::text;
use crate::stats::Estimate;

const WIDTH: f64 = 400.0;
const MARGIN: f64 = 12.0;
const ROW: f64 = 38.0;
const TOP: f64 = 26.0;

/// One backend on a chart.
pub(super) struct Mark {
    pub(super) label: String,
    pub(super) value: Estimate,
    pub(super) floor: Option<f64>,
}

/// A dot with its interval for each backend, on a logarithmic axis.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    pub(super) desc: &'a str,
    pub(super) marks: Vec<Mark>,
}

/// A logarithmic axis over whole powers of ten.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value.log10().floor());
            high = high.max(value.log10().ceil());
        }
        if !low.is_finite() {
            (low, high) = (0.0, 1.0);
        }
        Self { low, high: high.max(low + 1.0) }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-12).log10() - self.low) / (self.high - self.low);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (mut at, high) = (self.low, self.high);
        std::iter::from_fn(move || {
            let tick = at;
            at += 1.0;
            (tick <= high).then(|| 10_f64.powf(tick))
        })
    }
}

impl Chart<'_> {
    pub(super) fn draw(&self) -> Drawing {
        Drawing { caption: self.title.to_owned(), reading: self.desc.to_owned(), svg: self.to_svg() }
    }

    fn to_svg(&self) -> String {
        let all = self.marks.iter().flat_map(|mark| [Some(mark.value.lo), Some(mark.value.hi), mark.floor]);
        let axis = Axis::over(all.flatten());
        let height = TOP + ROW * crate::stats::as_f64(self.marks.len()) + 8.0;
        let id: String = self.title.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}, {}</title><desc id=\"{id}-d\">{}</desc>",
            escape(self.title),
            escape(self.unit),
            escape(self.desc)
        );
        self.grid(&mut svg, &axis, height);
        for (at, mark) in self.marks.iter().enumerate() {
            row(&mut svg, &axis, TOP + ROW * crate::stats::as_f64(at), mark, self.unit);
        }
        svg.push_str("</svg>");
        svg
    }

    fn grid(&self, svg: &mut String, axis: &Axis, height: f64) {
        for tick in axis.ticks() {
            let x = axis.at(tick);
            let anchor = if x < WIDTH / 4.0 {
                "start"
            } else if x > WIDTH * 0.75 {
                "end"
            } else {
                "middle"
            };
            push(svg, format_args!("<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"16\" y2=\"{height:.0}\"/>"));
            push(
                svg,
                format_args!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"11\" text-anchor=\"{anchor}\">{}</text>",
                    escape(&show(tick, self.unit))
                ),
            );
        }
    }
}

fn row(svg: &mut String, axis: &Axis, y: f64, mark: &Mark, unit: &str) {
    let (line, dot) = (y + 13.0, y + 25.0);
    let value = show(mark.value.est, unit);
    push(svg, format_args!("<text class=\"name\" x=\"{MARGIN}\" y=\"{line:.1}\">{}</text>", escape(&mark.label)));
    let right = WIDTH - MARGIN;
    push(
        svg,
        format_args!(
            "<text class=\"value\" x=\"{right}\" y=\"{line:.1}\" text-anchor=\"end\">{}</text>",
            escape(&value)
        ),
    );
    push(svg, format_args!("<line class=\"track\" x1=\"{MARGIN}\" x2=\"{right}\" y1=\"{dot:.1}\" y2=\"{dot:.1}\"/>"));
    if let Some(floor) = mark.floor {
        let x = axis.at(floor);
        push(svg, format_args!("<path class=\"floor\" d=\"M{:.1} {dot:.1}l6 -6l6 6l-6 6z\"/>", x - 6.0));
    }
    let (lo, est, hi) = (axis.at(mark.value.lo), axis.at(mark.value.est), axis.at(mark.value.hi));
    push(svg, format_args!("<line class=\"interval\" x1=\"{lo:.1}\" x2=\"{hi:.1}\" y1=\"{dot:.1}\" y2=\"{dot:.1}\"/>"));
    push(svg, format_args!("<circle class=\"ours\" cx=\"{est:.1}\" cy=\"{dot:.1}\" r=\"4\"/>"));
}

fn show(value: f64, unit: &str) -> String {
    match unit {
        "µs" if value >= 1000.0 => format!("{} ms", plain(value / 1000.0)),
        "µs" => format!("{} µs", plain(value)),
        _ => plain(value),
    }
}

/// Powers of ten without decimals.
fn plain(value: f64) -> String {
    if value >= 1.0 && (value.log10().fract().abs() < 1e-9) {
        text::digits(value).replace(".00", "").replace(".0", "")
    } else {
        text::digits(value)
    }
}

/// Writing to a string cannot fail.
fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = svg.write_fmt(text);
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_spans_whole_powers_of_ten() {
        let axis = Axis::over([277.0, 1650.0].into_iter());
        assert_eq!(axis.ticks().map(f64::round).collect::<Vec<_>>(), [100.0, 1000.0, 10_000.0]);
        assert!(axis.at(100.0) < axis.at(277.0) && axis.at(10_000.0) <= WIDTH - MARGIN + 1e-9);
        assert_eq!(Axis::over(std::iter::empty()).ticks().count(), 2);
        assert_eq!(Axis::over(std::iter::once(100.0)).ticks().count(), 2);
    }

    #[test]
    fn texts_are_escaped_and_everything_is_named() {
        let marks = vec![Mark { label: "<b>".to_owned(), value: Estimate::new(10.0, 9.0, 12.0), floor: Some(8.0) }];
        let svg = Chart { title: "Cycle", unit: "µs", desc: "a & b", marks }.to_svg();
        assert!(svg.contains("role=\"img\"") && svg.contains("<title") && svg.contains("a &amp; b"), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert_eq!(show(1000.0, "µs"), "1 ms");
    }
}
