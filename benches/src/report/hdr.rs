//! The latencies of every trial as an HDR interval log: an interval a trial, a tag for each scenario, backend and side.

use std::time::Duration;

use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use lockyard_api::Moment;

use crate::Scenario;
use crate::measure::Recording;
use crate::run::Measured;

/// Values are nanoseconds; a log shows its maxima in milliseconds.
const NANOS_PER_MILLI: f64 = 1e6;

impl Measured {
    /// The latencies of every trial as an HDR interval log (V2), for HistogramLogAnalyzer and its like: values in nanoseconds, an
    /// interval for each trial and side, tagged `scenario/backend/side` (sides: `ours`, `floor`, `floor-again` or what stands
    /// beside). Of peers, `ours` is theirs.
    ///
    /// # Errors
    /// When what was recorded cannot be written: nothing that a run makes.
    pub fn to_hdr(&self) -> Result<String, String> {
        let mut intervals: Vec<(String, &Recording)> = Vec::new();
        for cell in &self.cells {
            let of = format!("{}/{}", tag_of(cell.scenario), cell.backend);
            let recordings = cell.trials.iter().flat_map(|trial| &trial.recordings);
            intervals.extend(recordings.map(|recording| (format!("{of}/{}", plain(recording.side)), recording)));
        }
        intervals.sort_by_key(|(_, recording)| recording.begin);
        write(&intervals, self.started).map_err(|error| format!("the histograms cannot be written: {error}"))
    }
}

fn write(intervals: &[(String, &Recording)], started: Moment) -> Result<String, Box<dyn std::error::Error>> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("lockyard compare: latencies in nanoseconds")
        .with_start_time(started.wall())
        .with_base_time(started.wall())
        .with_max_value_divisor(NANOS_PER_MILLI)
        .begin_log_with(&mut log, &mut serializer)?;
    let mut reader = Deserializer::new();
    for (tag, recording) in intervals {
        let histogram = reader.deserialize::<u64, _>(&mut recording.encoded.as_slice()).map_err(|e| e.to_string())?;
        let since = recording.begin.saturating_sub(started.since_boot());
        writer
            .write_histogram(&histogram, since, recording.lasted.max(Duration::from_millis(1)), Tag::new(tag))
            .map_err(|e| format!("{e:?}"))?;
    }
    Ok(String::from_utf8(log)?)
}

/// A scenario with what tells it from others of its id, without the characters that end a tag.
fn tag_of(scenario: Scenario) -> String {
    plain(&scenario.to_string())
}

fn plain(text: &str) -> String {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.')));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use lockyard_api::Clock;

    use super::*;
    use crate::stats::Latencies;

    #[test]
    fn a_log_reads_back_with_its_tags_and_values() {
        let started = Clock::system().now();
        let recording = |side, millis: u64| {
            let mut latencies = Latencies::new();
            (1..=100).for_each(|n| latencies.record(Duration::from_millis(n * millis)));
            let begin = started.since_boot() + Duration::from_secs(millis);
            Recording { side, encoded: latencies.encoded(), begin, lasted: Duration::from_secs(1) }
        };
        let (ours, floor) = (recording("ours", 1), recording("floor", 2));
        let tag = tag_of(Scenario::Contended(64, crate::Clients::Spread(8)));
        let log = write(&[(format!("{tag}/redis/ours"), &ours), (format!("{tag}/redis/floor"), &floor)], started);
        let log = log.expect("a log");
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            let LogEntry::Interval(interval) = entry.expect("a line") else { continue };
            let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
            let histogram = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).expect("a histogram");
            let tag = interval.tag().expect("a tag").as_str().to_owned();
            found.push((
                tag,
                histogram.len(),
                histogram.value_at_quantile(0.5) / 1_000_000,
                format!("{:.0}", interval.max()),
            ));
        }
        assert_eq!(
            found,
            [
                ("contended-64-8-processes/redis/ours".to_owned(), 100, 50, "100".to_owned()),
                ("contended-64-8-processes/redis/floor".to_owned(), 100, 100, "200".to_owned()),
            ]
        );
    }

    #[test]
    fn tags_have_nothing_that_ends_them() {
        assert_eq!(plain("SET NX PX and compare-and-delete"), "SET-NX-PX-and-compare-and-delete");
        assert_eq!(tag_of(Scenario::OpenLoop(200)), "open_loop-200-s");
    }
}
