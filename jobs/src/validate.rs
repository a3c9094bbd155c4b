//! What is wrong with the options of a job, before it does anything.

use std::time::Duration;

use lockyard_api::{Drift, Fencing};

use crate::{Backoff, Invalid, Jitter, JobBuilder, Misfire, OnConflict, Ticks, WallTime, names};

/// Checks options one by one and against each other.
pub(crate) fn check(
    job: &JobBuilder,
    ticks: &Ticks,
    ttl: Duration,
    lead: Duration,
    now: WallTime,
) -> Result<(), Invalid> {
    name(job)?;
    lease(job, ttl, lead)?;
    times(job, ticks.shortest_period(now))?;
    policies(job)
}

fn name(job: &JobBuilder) -> Result<(), Invalid> {
    if job.name.contains('#') {
        let cure = "leave it away: name#0, name#1 and so on are the shards of a job";
        return Err(job.invalid("builder", "a name of a job holds no '#'", cure));
    }
    let last = match job.shards {
        Some(0) => return Err(job.invalid("shards", "no shard is no job", "give at least 1, or leave it away")),
        Some(shards) if shards > names::MOST_SHARDS => {
            let problem = format!("{shards} shards are more than {}", names::MOST_SHARDS);
            return Err(job.invalid("shards", problem, "give fewer, and each more to do"));
        }
        Some(shards) => Some(shards - 1),
        None => None,
    };
    for name in [names::lane(&job.name, last), names::marker(&job.name, last)] {
        name.map_err(|error| {
            let problem = format!("with its prefix and shard it is no name of a lock: {}", error.message());
            job.invalid("builder", problem, "choose a shorter name of printable characters")
        })?;
    }
    if job.name.is_empty() {
        return Err(job.invalid("builder", "the name is empty", "name the job, such as \"orders:sync\""));
    }
    if job.locks.capabilities().fencing == Fencing::None {
        let problem = format!("{} gives no fencing tokens here", job.locks.capabilities().backend);
        return Err(job.invalid("builder", problem, "turn them on: the record of the slots is written under them"));
    }
    Ok(())
}

fn lease(job: &JobBuilder, ttl: Duration, lead: Duration) -> Result<(), Invalid> {
    if let Err(error) = job.locks.capabilities().ttl.check(ttl) {
        return Err(job.invalid("ttl", error.message(), "give a ttl that the backend takes"));
    }
    // A renewal that fails has to have a second chance before the job is told to end.
    let needed = (ttl / 3) * 2 + lead + Drift::default().margin(ttl);
    if needed > ttl {
        let problem = format!(
            "the job would be told to end {lead:?} before the lease of {ttl:?} does, which leaves no time for two renewals ({:?} each)",
            ttl / 3
        );
        return Err(job.invalid("cancel_before", problem, "give a longer ttl, or less than a third of it here"));
    }
    Ok(())
}

fn times(job: &JobBuilder, period: Option<Duration>) -> Result<(), Invalid> {
    if job.at_most_for.is_some_and(|time| time.is_zero()) {
        let cure = "leave it away for no limit";
        return Err(job.invalid("at_most_for", "no run takes no time", cure));
    }
    if let (Some(least), Some(most)) = (job.at_least_for, job.at_most_for)
        && least > most
    {
        let problem = format!("at_least_for {least:?} is longer than at_most_for {most:?}");
        return Err(job.invalid("at_least_for", problem, "lower the first or raise the second"));
    }
    let Some(period) = period else { return Ok(()) };
    if let Some(least) = job.at_least_for.filter(|least| *least >= period) {
        let problem = format!(
            "{least:?} is not shorter than the shortest time between two ticks, {period:?}: a run would close the slot after it"
        );
        return Err(job.invalid("at_least_for", problem, "make it clearly shorter, or the schedule wider"));
    }
    match job.jitter {
        Jitter::Stable(most) if most >= period => {
            let problem = format!("{most:?} is not shorter than the shortest time between two ticks, {period:?}");
            Err(job.invalid("start_jitter", problem, "make it shorter"))
        }
        _ => Ok(()),
    }
}

fn policies(job: &JobBuilder) -> Result<(), Invalid> {
    if let OnConflict::Retry(Backoff { first, most, attempts }) = job.on_conflict {
        if attempts == 0 {
            return Err(job.invalid("on_conflict", "no attempt takes no lock", "allow at least one with max_attempts"));
        }
        if first.is_zero() || most < first {
            let problem = format!("a wait of {first:?} at first and {most:?} at most is none");
            return Err(job.invalid(
                "on_conflict",
                problem,
                "give a first bound above zero and a last one not below it",
            ));
        }
    }
    match job.misfire {
        Misfire::CatchUp { max: 0 } => {
            Err(job.invalid("misfire", "catching up at most 0 slots catches up none", "use Misfire::Skip"))
        }
        _ => Ok(()),
    }
}
