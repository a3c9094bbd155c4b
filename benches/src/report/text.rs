//! Numbers as people read them.

use crate::stats::Estimate;

/// µs, or ms from 1000 µs on.
pub(super) fn micros(us: f64) -> String {
    if us < 1000.0 { format!("{} µs", digits(us)) } else { format!("{} ms", digits(us / 1000.0)) }
}

pub(super) fn millis(ms: f64) -> String {
    micros(ms * 1000.0)
}

/// Seconds, or ms below one.
pub(super) fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{} ms", digits(s * 1000.0)) } else { format!("{} s", digits(s)) }
}

/// A time in seconds with its interval.
pub(super) fn seconds_spread(s: &Estimate) -> String {
    format!("{} s [{}, {}]", digits(s.est), digits(s.lo), digits(s.hi))
}

/// Three significant digits, thousands apart.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or_else(|| grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// `1.08 [1.03, 1.12]`, with `≈` in front when the interval holds 1.
pub(super) fn ratio(ratio: &Estimate) -> String {
    let tie = if ratio.contains(1.0) { "≈ " } else { "" };
    format!("{tie}{:.2} [{:.2}, {:.2}]", ratio.est, ratio.lo, ratio.hi)
}

/// The figure with its interval, in the unit of the figure.
pub(super) fn spread(value: &Estimate) -> String {
    format!("{} [{}, {}]", digits(value.est), digits(value.lo), digits(value.hi))
}

/// A time in µs with its interval, in one unit.
pub(super) fn micros_spread(us: &Estimate) -> String {
    let (unit, by) = if us.est < 1000.0 { ("µs", 1.0) } else { ("ms", 1000.0) };
    let [est, lo, hi] = [us.est, us.lo, us.hi].map(|value| digits(value / by));
    format!("{est} {unit} [{lo}, {hi}]")
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_thousands() {
        assert_eq!(
            (micros(277.4), micros(1652.0), micros(5.126)),
            ("277 µs".into(), "1.65 ms".into(), "5.13 µs".into())
        );
        assert_eq!(digits(28_158.4), "28,158");
        assert_eq!(digits(1_234_567.0), "1,234,567");
        assert_eq!(digits(-1234.0), "-1,234");
        assert_eq!(digits(0.0), "0.00");
        assert_eq!(millis(0.5), "500 µs");
        assert_eq!((seconds(2.5), seconds(0.25)), ("2.50 s".into(), "250 ms".into()));
    }

    #[test]
    fn a_ratio_that_may_be_one_is_a_tie() {
        assert_eq!(ratio(&Estimate::new(1.08, 0.99, 1.12)), "≈ 1.08 [0.99, 1.12]");
        assert_eq!(ratio(&Estimate::new(1.08, 1.03, 1.12)), "1.08 [1.03, 1.12]");
    }

    #[test]
    fn an_interval_has_the_unit_of_its_figure() {
        assert_eq!(micros_spread(&Estimate::new(1010.0, 990.0, 1200.0)), "1.01 ms [0.99, 1.20]");
        assert_eq!(spread(&Estimate::new(1010.0, 990.0, 1200.0)), "1,010 [990, 1,200]");
    }

    #[test]
    fn lists_read_like_sentences() {
        assert_eq!((list(&[]), list(&["a"])), (String::new(), "a".into()));
        assert_eq!((list(&["a", "b"]), list(&["a", "b", "c"])), ("a and b".into(), "a, b and c".into()));
    }
}
