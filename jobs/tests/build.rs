//! What is wrong with a job is told when it is built.

mod support;

use std::time::Duration;

use lockyard_jobs::{Backoff, Jitter, JobBuilder, JobError, Misfire, OnConflict, Schedule};
use support::{Checked, MINUTE, Replica, server};

#[tokio::test]
async fn what_is_wrong_is_told_with_its_cure() -> Checked {
    let replica = Replica::of(&server());
    let minutes = |n: u32| MINUTE * n;
    type Bad = (fn(JobBuilder) -> JobBuilder, &'static str, &'static [&'static str]);
    let cases: &[Bad] = &[
        // B140: a too large at_least_for makes the job never start.
        (|j| j.at_least_for(MINUTE * 10).at_most_for(MINUTE * 5), "at_least_for", &["600s", "300s", "lower the first"]),
        (|j| j.at_least_for(MINUTE), "at_least_for", &["60s", "shorter"]),
        (|j| j.at_least_for(MINUTE * 2), "at_least_for", &["120s", "60s"]),
        (|j| j.at_most_for(Duration::ZERO), "at_most_for", &["leave it away"]),
        (|j| j.ttl(Duration::ZERO), "ttl", &["zero"]),
        (
            |j| j.ttl(Duration::from_secs(3)).cancel_before(Duration::from_secs(1)),
            "cancel_before",
            &["3s", "1s", "longer ttl"],
        ),
        (|j| j.schedule(Schedule::cron("0 2 * * *").tz("Mars/Olympus")), "tz", &["Mars/Olympus", "Europe/Berlin"]),
        (|j| j.schedule(Schedule::cron("0 0 31 2 *")), "schedule", &["never due"]),
        (|j| j.start_jitter(Jitter::Stable(MINUTE)), "start_jitter", &["60s", "shorter"]),
        (|j| j.shards(0), "shards", &["at least 1"]),
        (|j| j.shards(1 << 20), "shards", &["1048576", "fewer"]),
        (|j| j.misfire(Misfire::CatchUp { max: 0 }), "misfire", &["Misfire::Skip"]),
        (
            |j| j.on_conflict(OnConflict::Retry(Backoff::full_jitter(MINUTE, MINUTE).max_attempts(0))),
            "on_conflict",
            &["max_attempts"],
        ),
        (
            |j| j.on_conflict(OnConflict::Retry(Backoff::full_jitter(MINUTE, Duration::ZERO))),
            "on_conflict",
            &["above zero"],
        ),
    ];
    for (change, option, words) in cases {
        let builder = change(replica.job("nightly").schedule(Schedule::every(minutes(1))));
        let error = builder.build().expect_err(option);
        let JobError::Invalid(invalid) = &error else { panic!("{error}") };
        assert_eq!(&invalid.option, option, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("job \"nightly\", "), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn names_that_are_none_are_told() -> Checked {
    let replica = Replica::of(&server());
    let long = "x".repeat(505);
    for name in ["", "a\nb", "orders#1", long.as_str(), &"x".repeat(600)] {
        let error = replica.job(name).shards(1000).build().expect_err(name);
        assert!(matches!(&error, JobError::Invalid(invalid) if invalid.option == "builder"), "{error}");
    }
    assert!(replica.job(&"x".repeat(490)).build().is_ok());
    Ok(())
}
