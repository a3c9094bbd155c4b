//! Axes: from values to places, and where the grid stands.

use super::Unit;
use super::canvas::width_of;

/// How many grid lines a linear axis has, about.
const STEPS: f64 = 4.0;

/// An axis over values, between two places of the drawing.
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Over whole powers of ten.
    Logarithmic,
    Linear,
}

impl Axis {
    /// A logarithmic axis over the whole powers of ten around the values.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value.log10().floor());
            high = high.max(value.log10().ceil());
        }
        if !low.is_finite() {
            (low, high) = (0.0, 1.0);
        }
        Self { low, high: high.max(low + 1.0), from, to, scale: Scale::Logarithmic }
    }

    /// A linear axis from 0 over the values.
    pub(super) fn linear(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let high = if high > 0.0 { high } else { 1.0 };
        Self { low: 0.0, high, from, to, scale: Scale::Linear }
    }

    /// Where a value stands; one that is off the axis at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Logarithmic => value.max(1e-12).log10(),
            Scale::Linear => value,
        };
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The values at which the grid stands.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let step = match self.scale {
            Scale::Logarithmic => 1.0,
            Scale::Linear => step(self.high),
        };
        let mut ticks = Vec::new();
        let mut count = 0_u32;
        loop {
            let tick = f64::from(count).mul_add(step, self.low);
            // A little more than the end: sums of decimals are not exact.
            if tick > self.high + step * 1e-6 {
                return ticks;
            }
            ticks.push(if self.scale == Scale::Logarithmic { 10_f64.powf(tick) } else { tick });
            count += 1;
        }
    }

    /// The values of the grid that have a label: as many as have room, side by side.
    pub(super) fn labels(&self, unit: Unit) -> Vec<(f64, String)> {
        let ticks = self.ticks();
        let labels: Vec<(f64, String)> = ticks.into_iter().map(|tick| (tick, unit.tick(tick))).collect();
        let widest = labels.iter().map(|(_, label)| width_of(label)).fold(0.0, f64::max) + 8.0;
        let mut every = 1;
        let apart = |every: usize| {
            let places: Vec<f64> = labels.iter().step_by(every).map(|(tick, _)| self.at(*tick)).collect();
            places.windows(2).all(|pair| (pair[1] - pair[0]).abs() >= widest)
        };
        while every < labels.len() && !apart(every) {
            every += 1;
        }
        labels.into_iter().step_by(every).collect()
    }
}

/// 1, 2 or 5 times a power of ten.
fn step(high: f64) -> f64 {
    let rough = high / STEPS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: (f64, f64) = (12.0, 331.0);

    fn rounded(axis: &Axis) -> Vec<f64> {
        axis.ticks().into_iter().map(|tick| (tick * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn a_logarithmic_axis_spans_whole_powers_of_ten() {
        let axis = Axis::logarithmic([277.0, 1650.0].into_iter(), SPAN);
        assert_eq!(rounded(&axis), [100.0, 1000.0, 10_000.0]);
        assert!(axis.at(100.0) < axis.at(277.0) && axis.at(10_000.0) <= SPAN.1 + 1e-9);
        assert_eq!(Axis::logarithmic(std::iter::empty(), SPAN).ticks().len(), 2);
        assert_eq!(Axis::logarithmic(std::iter::once(100.0), SPAN).ticks().len(), 2);
    }

    #[test]
    fn a_linear_axis_has_round_steps_from_zero() {
        assert_eq!(rounded(&Axis::linear([1.0].into_iter(), SPAN)), [0.0, 0.5, 1.0]);
        assert_eq!(rounded(&Axis::linear([45.5].into_iter(), SPAN)), [0.0, 20.0, 40.0]);
        assert_eq!(rounded(&Axis::linear(std::iter::empty(), SPAN)), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn labels_that_have_no_room_go() {
        let wide = Axis::logarithmic([1.0, 1e9].into_iter(), SPAN);
        let labels = wide.labels(Unit::Plain);
        assert!(labels.len() < wide.ticks().len());
        for pair in labels.windows(2) {
            assert!(wide.at(pair[1].0) - wide.at(pair[0].0) >= width_of(&pair[1].1));
        }
    }
}
