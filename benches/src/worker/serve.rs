//! The worker's side: takes orders from stdin until it ends.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, Locker};
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::task::JoinSet;

use super::{Answer, Order};
use crate::measure::{self, TurnLog};
use crate::side::{Ours, Outcome, Side, Trouble};
use crate::target::Connect;

/// How long giving everything back may take at the end; the rest is left to its lease.
const FAREWELL: Duration = Duration::from_secs(10);

/// Works for a comparison that runs in another process: takes its orders from standard input and answers on standard
/// output, until the input ends. Killed when the thread that started it ends.
///
/// What fails is answered, not returned.
///
/// # Errors
/// When the end of the parent cannot be noticed.
///
/// # Cancel safety
/// Dropped, it leaves what it holds to the leases.
pub async fn serve(connect: Connect) -> io::Result<()> {
    // A stopped worker does not see its input end.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut orders = Orders(BufReader::new(stdin()).lines());
    if let Err(trouble) = obey(&connect, &mut orders).await {
        answer(&Answer::Failed { reason: trouble.to_string() });
    }
    Ok(())
}

struct Orders(Lines<BufReader<Stdin>>);

impl Orders {
    /// The next order; the end of the input ends everything.
    async fn next(&mut self) -> Outcome<Order> {
        match self.0.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Ok(Order::End),
        }
    }
}

fn answer(answer: &Answer) {
    // A parent that is gone needs no answer, and then the input ends as well.
    if let Ok(line) = serde_json::to_string(answer) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

async fn obey(connect: &Connect, orders: &mut Orders) -> Outcome<()> {
    match orders.next().await? {
        Order::Contend { name, contenders, first } => contend(connect, orders, &name, contenders, first).await,
        Order::Wait { name, tasks } => wait(connect, orders, &name, tasks).await,
        Order::Hold { name, count, ttl_millis, for_millis } => {
            let (ttl, during) = (Duration::from_millis(ttl_millis), Duration::from_millis(for_millis));
            let cost = measure::hold(connect, &name, count, ttl, during).await?;
            answer(&Answer::Held { cost });
            Ok(())
        }
        Order::Keep { name, ttl_millis } => keep(connect, orders, &name, Duration::from_millis(ttl_millis)).await,
        Order::End => Ok(()),
        other @ Order::Start { .. } => Err(Trouble::new(format!("out of turn: {other:?}"))),
    }
}

async fn contend(connect: &Connect, orders: &mut Orders, name: &str, contenders: usize, first: usize) -> Outcome<()> {
    let side = Ours::new(connect);
    let clock = Clock::system();
    let (contenders, round) = measure::warm(side.own(contenders).await?, name, &clock).await?;
    answer(&Answer::Ready { millis: Some(millis(round)) });
    let Order::Start { at_nanos, for_nanos } = orders.next().await? else {
        measure::close(contenders).await;
        return Ok(());
    };
    let now = clock.now();
    let already = u64::try_from(now.since_boot().as_nanos()).unwrap_or(u64::MAX);
    let begin = now.plus(Duration::from_nanos(at_nanos.saturating_sub(already)));
    let log = TurnLog::new(first);
    let contenders =
        measure::turns(contenders, name, Arc::clone(&log), begin, Duration::from_nanos(for_nanos), &clock).await?;
    answer(&Answer::Contended { turns: log.take() });
    measure::close(contenders).await;
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn wait(connect: &Connect, orders: &mut Orders, name: &str, tasks: usize) -> Outcome<()> {
    let locker = Locker::over(connect().await?).build()?;
    let mut waiting = JoinSet::new();
    for _ in 0..tasks {
        let (locker, name) = (locker.clone(), name.to_owned());
        waiting.spawn(async move { locker.acquire(name).await.map(drop) });
    }
    answer(&Answer::Ready { millis: None });
    orders.next().await?;
    let early = waiting.try_join_next();
    waiting.shutdown().await;
    // What it could not undo in time, the lease ends.
    let _ = tokio::time::timeout(FAREWELL, locker.shutdown()).await;
    match early {
        Some(Ok(Err(error))) => return Err(error.into()),
        Some(Err(error)) => return Err(error.into()),
        early => answer(&Answer::Waited { early: early.is_some() }),
    }
    Ok(())
}

async fn keep(connect: &Connect, orders: &mut Orders, name: &str, ttl: Duration) -> Outcome<()> {
    let locker = Locker::over(connect().await?).ttl(ttl).build()?;
    let guard = locker.acquire(name).await?;
    let promised = locker.capabilities();
    let bound = guard.ttl().unwrap_or_default() + promised.slack;
    answer(&Answer::Ready { millis: Some(millis(bound)) });
    orders.next().await?;
    let _ = tokio::time::timeout(FAREWELL, guard.release()).await;
    let _ = tokio::time::timeout(FAREWELL, locker.shutdown()).await;
    Ok(())
}
